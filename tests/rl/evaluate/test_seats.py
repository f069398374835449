"""Evaluation in the seats of an environment: who meets whom, results by seat, cross-play, exploitability."""

from __future__ import annotations

import asyncio
import itertools
import json
from dataclasses import replace
from functools import partial
from math import exp
from pathlib import Path

import pytest
import torch

from envs.multi.kuhn import Kuhn
from envs.multi.leduc import Leduc
from envs.types import assistant
from rl import cli
from rl.evaluate import __main__ as evaluate
from rl.evaluate.report import Report
from rl.evaluate.seats.exploitability import ModelStrategy, information_prompts
from rl.evaluate.seats.matches import MatchPlan
from rl.records import Ticket
from rl.rollout.player import ScriptPlayer
from tests.support.chat_server import Answer, completion
from tests.support.fake_endpoint import with_server
from tests.support.runs import small_model

KUHN = ("--env", "multi/Kuhn-v0", "--env-arg", "style=short")
SEATS = ("player_0", "player_1")


def command(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stop:
        cli.run(partial(evaluate.main, [str(word) for word in words]))
    out, err = capsys.readouterr()
    return int(stop.value.code or 0), out, err


def report_of(capsys: pytest.CaptureFixture[str], folder: Path, *words: object) -> tuple[Report, str]:
    status, out, err = command(capsys, *words, "--json", folder / "report.json")
    assert status == 0, err
    return Report.from_json(folder / "report.json"), out


def lines_of(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "report.rollouts.jsonl").read_text().splitlines()]


def plan_of(*names: str, is_team: bool = False) -> MatchPlan:
    scripts = (ScriptPlayer(name, lambda env, seat, rng: assistant("")) for name in names)
    return MatchPlan(SEATS, tuple(scripts), is_team)


def test_every_pair_meets_from_each_seat_and_the_first_player_comes_first() -> None:
    plan = plan_of("a", "b", "a")
    assert plan.names == ["a", "b", "a (2)"]
    tickets = plan.tickets([Ticket(7, 3, "test", seed=1, size=1), Ticket(8, 4, "test", seed=2, size=1)])
    assert [ticket.number for ticket in tickets] == list(range(12))
    pairs = [tuple(plan.lineup(ticket)[seat].name for seat in SEATS) for ticket in tickets[:6]]
    assert pairs == [("a", "b"), ("b", "a"), ("a", "a (2)"), ("a (2)", "a"), ("b", "a (2)"), ("a (2)", "b")]
    opponents = [[plan.lineup(ticket)[seat].is_opponent for seat in SEATS] for ticket in tickets[:2]]
    assert opponents == [[False, True], [True, False]]
    alone = plan_of("a")
    assert [player.is_opponent for player in alone.lineup(alone.tickets(tickets[:1])[0]).values()] == [False, False]


def test_a_policy_plays_each_seat_in_turn_and_the_files_say_who_sat_where(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    report, out = report_of(
        capsys, tmp_path, *KUHN, "--policy", "oracle", "--opponent", "equilibrium:alpha=0.2", "--episodes", 60
    )
    assert (report.episodes, report.opponents, report.policy) == (60, ["equilibrium:alpha=0.2"], "oracle")
    assert report.seats is not None and report.seats.exploitability is None
    assert [(row.seat, row.episodes) for row in report.seats.by_seat] == [(seat, 60) for seat in SEATS]
    assert report.return_mean == pytest.approx(sum(row.return_mean.mean or 0 for row in report.seats.by_seat) / 2)
    assert report.return_mean and report.return_mean > 0  # it sees both cards
    lines = lines_of(tmp_path)
    assert len(lines) == 60 * 2 * 2
    seats = {(line["player"], line["agent"]) for line in lines}
    assert seats == {(name, seat) for name in ("oracle", "equilibrium:alpha=0.2") for seat in SEATS}
    by_game: dict[int, float] = {}
    for line in lines:
        by_game[line["group"]] = by_game.get(line["group"], 0.0) + line["reward"]
    assert set(by_game.values()) == {0.0}  # what one wins, the other loses
    assert "against" in out and "equilibrium:alpha=0.2" in out


def test_minimax_does_not_lose_against_random_play_from_either_seat(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    flags = ("--env", "multi/TicTacToe-v0", "--policy", "minimax", "--opponent", "random", "--episodes", 10)
    report, _ = report_of(capsys, tmp_path, *flags)
    (pair,) = report.seats.pairs  # type: ignore[union-attr]
    assert pair.games == 20 and (pair.score.mean or 0) >= 0.9
    assert not [t for task in report.per_task for t in task.rewards if t is not None and t < 0]


def test_without_an_opponent_the_policy_plays_all_seats_and_a_team_is_counted_once(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    team = ("--env", "multi/PlanPath-v0", "--env-arg", "size=3", "--episodes", 8)
    report, out = report_of(capsys, tmp_path, *team, "--policy", "oracle")
    assert report.opponents == [] and report.success.mean == 1.0
    assert report.seats is not None and report.seats.is_team and not report.seats.ratings
    assert [row.success.mean for row in report.seats.by_seat] == [1.0, 1.0]
    assert report.success.low == pytest.approx(0.676, abs=0.01)  # Wilson's of 8 tasks, not of 16 seats
    assert "team success" in out
    with_noop, _ = report_of(capsys, tmp_path, *team, "--policy", "oracle", "--opponent", "noop")
    assert with_noop.success.mean == 0.0


def test_episodes_in_seats_are_counted_once_among_the_scored_and_among_the_errors(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    lines = ["from envs.types import assistant", "", "", "played = [0]", "", "", "def mine(env, seat, rng):"]
    lines += ["    if seat == 'player_0':", "        played[0] += 1", "    if played[0] > 2:"]
    (tmp_path / "bad.py").write_text(
        "\n".join([*lines, "        raise OSError('gone')", "    return assistant('bet')", ""])
    )
    words = [*KUHN, "--policy", f"{tmp_path / 'bad.py'}:mine", "--episodes", 4, "--samples", 2]
    status, out, err = command(capsys, *words, "--json", tmp_path / "report.json")
    report = Report.from_json(tmp_path / "report.json")
    assert status == 0 and report.seats is not None and not report.is_complete, err
    assert (report.seats.episodes, report.errors) == (2, 6) and "6 of 8 episodes failed" in err
    assert "4 tasks x up to 2 samples, 2 episodes scored" in out
    assert sum(len(row.success) for row in report.per_task) == 4


def test_several_opponents_give_a_table_of_all_pairs_and_ratings(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = [*KUHN, "--policy", "random", "--opponent", "oracle", "--opponent", "noop", "--episodes", 30]
    report, out = report_of(capsys, tmp_path, *words)
    results = report.seats
    assert results is not None
    assert [(row.first, row.second) for row in results.pairs] == [
        ("random", "oracle"),
        ("random", "noop"),
        ("oracle", "noop"),
    ]
    assert {row.games for row in results.pairs} == {60}
    assert results.ratings.keys() == {"random", "oracle", "noop"}
    assert min(results.ratings, key=lambda name: results.ratings[name].mean or 0) == "noop"
    assert sum(rating.mean or 0 for rating in results.ratings.values()) == pytest.approx(0)
    assert "rating" in out
    status, _, err = command(
        capsys, *words[:-4], "--episodes", 30, "--compare", tmp_path / "report.json"
    )  # one opponent only
    assert (status, "opponents" in err) == (2, True)


@pytest.mark.parametrize(("env", "value", "expected"), [("Kuhn", 0.458333, 0.125), ("Leduc", 2.373611, -0.078125)])
def test_random_play_has_its_known_exploitability(
    env: str, value: float, expected: float, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = ("--env", f"multi/{env}-v0", "--policy", "random", "--episodes", 2)
    report, out = report_of(capsys, tmp_path, *words)
    found = report.seats.exploitability  # type: ignore[union-attr]
    assert found is not None and found.legal_mass_mean is None
    assert (found.value, found.expected) == (pytest.approx(value, abs=1e-6), pytest.approx(expected, abs=1e-6))
    assert f"{value:.4f} a game" in out


def test_a_model_meets_itself_with_equal_bytes_and_its_exploitability_is_printed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = (*KUHN, "--policy", small_model(), "--opponent", small_model(), "--episodes", 4, "--turn-tokens", 6)
    report, out = report_of(capsys, tmp_path, *words)
    first = (tmp_path / "report.json").read_bytes()
    report_of(capsys, tmp_path, *words)
    assert (tmp_path / "report.json").read_bytes() == first
    assert {line["player"] for line in lines_of(tmp_path)} == {small_model(), f"{small_model()} (1)"}
    found = report.seats.exploitability  # type: ignore[union-attr]
    assert found is not None and found.information_states == 12 and 0 <= found.value < 2
    assert 0 < (found.legal_mass_min or 0) <= (found.legal_mass_mean or 0) < 1
    assert "plain legal words" in out


class _Letters:
    """A model of one character a token whose next token depends on the one before it alone."""

    def __init__(self) -> None:
        self.table = torch.randn(128, 128, generator=torch.Generator().manual_seed(0))

    def parameters(self):  # type: ignore[no-untyped-def]
        yield self.table

    def __call__(self, input_ids):  # type: ignore[no-untyped-def]
        return type("Output", (), {"logits": self.table[input_ids]})


class _Writer:
    def write(self, message: dict) -> tuple[int, ...]:
        return (*map(ord, message["content"]), 0)


def local_model(agent):  # type: ignore[no-untyped-def]
    from rl.evaluate.policies import LocalModel
    from rl.records import SamplingParams

    return LocalModel(_Letters(), _Writer(), None, agent, SamplingParams())  # type: ignore[arg-type]


def test_the_strategy_of_a_model_is_read_from_its_log_probabilities() -> None:
    from tests.support.episodes import LetterAgent

    model = local_model(LetterAgent)
    strategy = ModelStrategy.of(Kuhn(style="short"), model)
    prompts = information_prompts(Kuhn(style="short"), model)
    prompt, words = prompts["Kpb"]
    assert words == ("call", "fold") and "check" in "".join(map(chr, prompt))  # its own earlier reply
    logprobs = model.model.table.log_softmax(-1)

    def probability(word: str) -> float:
        ids = [prompt[-1], *map(ord, word), 0]
        return exp(sum(float(logprobs[a, b]) for a, b in itertools.pairwise(ids)))

    total = probability("call") + probability("fold")
    assert strategy.masses["Kpb"] == pytest.approx(total, rel=1e-4)
    assert strategy.odds["Kpb"]["call"] == pytest.approx(probability("call") / total, rel=1e-4)


def test_the_prompts_of_leduc_are_one_for_each_information_state() -> None:
    from tests.support.episodes import LetterAgent

    prompts = information_prompts(Leduc(style="full"), local_model(LetterAgent))
    assert len(prompts) == 288
    assert len({prompt for prompt, _ in prompts.values()}) == 288


def test_a_model_behind_an_api_sits_in_a_seat(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TURNWISE_CACHE", str(tmp_path / "cache"))

    async def respond(path: str, headers: dict[str, str], body: bytes) -> Answer:
        if path.endswith("/models"):
            return Answer(body={"data": [{"id": "gpt"}]})
        words = json.loads(body)["messages"][-1]["content"]
        return Answer(body=completion("call" if "call" in words else "bet"))

    specs = []

    async def use(url: str) -> tuple[Report, Report, Report]:
        specs.append(f"openai:gpt@{url}")
        words = (*KUHN, "--episodes", 4)
        pair = "--policy", "oracle", "--opponent", specs[0]
        against, _ = await asyncio.to_thread(report_of, capsys, tmp_path, *words, *pair)
        hot = "--api-arg", "temperature=0.9"
        tiny = "--policy", "tiny", "--opponent", specs[0], "--temperature", 0.5
        local, _ = await asyncio.to_thread(report_of, capsys, tmp_path, *words, *tiny, *hot)
        alone, _ = await asyncio.to_thread(report_of, capsys, tmp_path, *words, "--policy", specs[0], *hot)
        return against, local, alone

    against, local, alone = with_server(respond, use)
    (spec,) = specs
    assert (against.errors, against.opponents) == (0, [spec])
    assert local.sampling and alone.sampling
    assert (local.sampling["temperature"], alone.sampling["temperature"]) == (0.5, 0.9)  # the field is the API's alone
    assert alone.seats is not None and sum(row.return_mean.mean or 0 for row in alone.seats.by_seat) == pytest.approx(0)
    lines = [line for line in lines_of(tmp_path) if line["player"] == spec]
    assert {turn["reply"]["content"] for line in lines for turn in line["turns"]} <= {"bet", "call"}


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--env", "math/Arithmetic-v0", "--policy", "random", "--opponent", "random"), "has one seat"),
        ((*KUHN, "--policy", "random", "--opponent", "minmax"), "minmax"),
        ((*KUHN, "--policy", "random", "--opponent", "equilibrium:beta=1"), "beta"),
        ((*KUHN, "--policy", "random", "--opponent", "human"), "single-agent views only"),
        ((*KUHN, "--policy", "human", "--opponent", "random"), "plays one seat"),
        ((*KUHN, "--env-arg", "seat=player_1", "--policy", "random", "--opponent", "random"), "ask for one seat"),
        ((*KUHN, "--policy", "random", "--opponent", "random", "--strategy", "best_of:n=2"), "strategy plays one seat"),
        (("--benchmark", "core-v2", "--policy", "random", "--opponent", "random"), "a benchmark"),
    ],
)
def test_what_cannot_be_played_in_seats_is_refused_in_one_line(
    words: tuple[str, ...], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, err = command(capsys, *words)
    assert (status, out, err.count("\n")) == (2, "", 1), err
    assert reason in err


def test_a_view_is_still_played_where_an_argument_asks_for_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    report, _ = report_of(capsys, tmp_path, *KUHN, "--env-arg", "seat=player_1", "--policy", "random", "--episodes", 5)
    assert (report.seats, report.opponents, replace(report).episodes) == (None, None, 5)
