"""A player for each seat: who sits where, what is reported, what is refused, and diversity in reports."""

from __future__ import annotations

from pathlib import Path

import pytest

from envs.types import assistant
from rl.evaluate.seats.matches import MatchPlan
from rl.evaluate.seats.teams import read_opponents
from rl.records import Ticket
from rl.rollout.player import ScriptPlayer
from tests.rl.evaluate.test_seats import command, lines_of, report_of
from tests.support.runs import flags, train_run

SOKOBAN = ("--env", "multi/Sokoban-v0", "--episodes", 6)


def test_a_seat_before_an_equals_sign_places_its_player() -> None:
    seats = ("a", "b", "c")
    assert read_opponents(["minimax:depth=2", "openai:m@http://x/?k=v"], seats)[1] == {}
    assert read_opponents(["b=minimax:depth=2", "c=random"], seats) == (["minimax:depth=2", "random"], {"b": 1, "c": 2})
    assert read_opponents(["1=random", "2=random"], seats) == (["random"], {"b": 1, "c": 1})
    assert read_opponents(["b=random", "c=random"], seats) == (["random"], {"b": 1, "c": 1})
    assert read_opponents(["player ann=random"], ("player ann", "bob-2")) == (["random"], {"player ann": 1})
    assert read_opponents(["bob-2=mine.py:f"], ("player ann", "bob-2")) == (["mine.py:f"], {"bob-2": 1})


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["b=random", "oracle"], "oracle: names no seat, and others do; write SEAT=oracle"),
        (["bb=random"], "unknown seat 'bb'"),
        (["3=random"], "unknown seat '3'"),
        (["b=random", "1=random"], "the seat b is named twice"),
        (["b="], "b=: names nobody for the seat b"),
        (["b=random", "b=oracle"], "the seat b is named twice"),
        (["a=random", "b=random", "c=oracle"], "leaves no seat to --policy"),
    ],
)
def test_seats_that_do_not_fit_are_refused(texts: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_opponents(texts, ("a", "b", "c"))


def test_the_policy_has_the_seats_that_are_left_in_one_match_of_each_task() -> None:
    players = tuple(ScriptPlayer(name, lambda env, seat, rng: assistant("")) for name in ("p", "q", "p"))
    plan = MatchPlan(("a", "b", "c", "d"), players, False, {"d": 1, "b": 2})
    assert plan.own_seats == ["a", "c"] and plan.opponents == ["p (2) + q"] and len(plan.matches) == 1
    (ticket,) = plan.tickets([Ticket(7, 3, "test", seed=1, size=1)])
    lineup = plan.lineup(ticket)
    assert {seat: lineup[seat].name for seat in plan.seats} == {"a": "p", "b": "p (2)", "c": "p", "d": "q"}
    assert [lineup[seat].is_opponent for seat in plan.seats] == [False, True, False, True]


def test_a_team_of_two_policies_is_reported_by_its_seats(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    good, out = report_of(capsys, tmp_path, *SOKOBAN, "--policy", "oracle", "--opponent", "executor=oracle")
    assert good.success.mean == 1.0 and good.opponents == ["executor=oracle"] and good.episodes == 6
    assert good.seats is not None and [row.seat for row in good.seats.by_seat] == ["planner"]
    assert not good.seats.pairs and not good.seats.ratings
    assert {(line["agent"], line["player"]) for line in lines_of(tmp_path)} == {
        ("planner", "oracle"),
        ("executor", "oracle (1)"),
    }
    assert "outputs" in out
    assert good.diversity["seats"].effective.mean == pytest.approx(1)  # the executor repeats the planner's steps
    bad, _ = report_of(capsys, tmp_path, *SOKOBAN, "--policy", "oracle", "--opponent", "executor=random")
    assert bad.success.mean is not None and bad.success.mean < 1
    assert (bad.diversity["seats"].effective.mean or 0) > 1.2
    status, _, err = command(capsys, *SOKOBAN, "--policy", "oracle", "--opponent", "walker=oracle")
    assert status == 2 and "unknown seat 'walker'" in err


def test_players_that_change_seats_are_compared_in_the_same_seat(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = ("--env", "multi/Kuhn-v0", "--policy", "oracle", "--opponent", "noop", "--opponent", "random")
    report, _ = report_of(capsys, tmp_path, *words, "--episodes", 8)
    players = report.diversity["players"]
    assert players.size == 3 and players.sets <= 16 and set(players.gains) == {"oracle", "noop", "random"}
    assert 1 < (players.effective.mean or 0) < 3


def test_a_run_of_several_roles_plays_each_seat_by_its_own_policy(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    game = f"{Path(__file__).parents[2] / 'support' / 'seats.py'}:Lows"
    roles = ("--role", "late=1", "--role", "early=0", "--env-arg", "style=short", "--updates", "2", "--groups", "4")
    run = train_run(*flags(game, *roles), out=tmp_path / "run")
    model = run / "checkpoints" / "latest" / "model"
    words = ("--env", game, "--env-arg", "style=short", "--episodes", 6, "--turn-tokens", 6, "--temperature", 1)

    def replies(*players: object) -> list[tuple[str, list[str]]]:
        report_of(capsys, tmp_path, *words, *players)
        return [(line["agent"], [turn["reply"]["content"] for turn in line["turns"]]) for line in lines_of(tmp_path)]

    team = replies("--policy", run)
    assert team == replies("--policy", model / "early", "--opponent", f"player_1={model / 'late'}")
    assert team != replies("--policy", model / "late", "--opponent", f"player_1={model / 'early'}")
    against = replies("--policy", "random", "--opponent", run)
    assert {agent for agent, _ in against} == {"player_0", "player_1"}
    status, _, err = command(capsys, "--env", "math/Arithmetic-v0", "--policy", run)
    assert status == 2 and f"a model for each role; give {model}/early or {model}/late" in err
