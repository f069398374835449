"""Which seats a run trains, and where it is measured."""

from __future__ import annotations

import pytest

from rl.rollout.seating import seating_of
from tests.support.runs import flags, metrics, rollouts, train_run, training_error

SHORT = {"turn_tokens": 12, "env_arg": "style=short", "max_tokens": 200}


def test_all_seats_are_trained_unless_an_argument_asks_for_one() -> None:
    spec = "multi/TicTacToe-v0"
    table = seating_of(spec, ["style=short"], {"style": "short"})
    assert table.seats == ("player_0", "player_1") and table.is_contest
    assert type(table.make_env()).__name__ == "TicTacToe"
    assert table.make_view().unwrapped.seat_argument == "any"  # type: ignore[attr-defined]
    for text in ("seat=player_1", "opponent=minimax:depth=2"):
        key, _, value = text.partition("=")
        view = seating_of(spec, [text], {key: value})
        assert view.seats == ("agent",) and view.make_env().unwrapped.game.__name__ == "TicTacToe"


def test_teammates_are_measured_together_and_their_floor_is_random_in_all_seats() -> None:
    team = seating_of("multi/PlanPath-v0", ["size=3"], {"size": 3})
    assert team.seats == ("planner", "executor") and not team.is_contest
    assert team.make_floor().unwrapped.opponent == "random"  # type: ignore[attr-defined]
    assert team.make_env().size == 3
    assert "in all seats together" in team.description()


def test_one_agent_has_one_seat() -> None:
    solo = seating_of("games/GuessNumber-v0", [], {}, plays_seats=False)
    assert (solo.seats, solo.description()) == (("agent",), "")


def test_a_method_that_plays_one_agent_names_what_to_do() -> None:
    message = training_error(*flags("multi/Kuhn-v0", algo="tree_grpo", updates=1, **SHORT))
    assert "has the seats player_0, player_1" in message and "--env-arg seat=player_0" in message


@pytest.mark.parametrize("env", ["multi/PlanPath-v0", "multi/IteratedDilemma-v0"])
def test_a_run_trains_every_seat(env: str, tmp_path) -> None:  # type: ignore[no-untyped-def]
    run = train_run(*flags(env, updates=1, **SHORT), out=tmp_path / "run")
    lines = rollouts(run, 1)
    assert {(line["group"], line["member"]) for line in lines} == {(g, m) for g in range(2) for m in range(4)}
    assert {line["agent"] for line in lines} == set(seating_of(env, [], {}).seats)
    (metric,) = metrics(run)
    assert metric["groups/kept"] == metric["groups/played"] > 2
    assert metric["kl/sampler_trainer"] < 1e-5
