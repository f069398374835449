"""Self-play against past weights: who enters and leaves, who is met, ratings, and runs that are killed."""

from __future__ import annotations

import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from envs.types import Stop
from rl.records import Completion, Group, Ticket, Trajectory, Turn
from rl.train.seats.pool import Pool, PoolOptions
from rl.train.storage.state_file import read_state
from tests.support.runs import Child, assert_same_run, flags, metrics, rollouts, train, train_run, training_error

KUHN = "multi/Kuhn-v0"


def words(pool: str, **settings: object) -> list[str]:
    more = {"env_arg": "style=short", "updates": 4, "turn_tokens": 8, "groups": 4, **settings}
    return flags(KUHN, opponent=pool, **more)


def pool_of(rule: str = "uniform", **options: Any) -> Pool:
    pool = Pool(PoolOptions(rule=rule, **{"every": 1, "size": 3, "self_play": 0.0, **options}), 0, is_team=False)  # type: ignore[arg-type]
    pool.connect(nn.Linear(1, 1), None)  # type: ignore[arg-type]
    pool.begin()
    return pool


def games(opponent: str, wins: int, losses: int) -> Group:
    own, others = [], []
    turn = Turn((1,), Completion((1,), (0.0,), (0.0,), (0,)))
    for member in range(wins + losses):
        is_win = member < wins
        own.append(Trajectory([turn], Stop.TERMINATED, is_win, member=member, agent="a"))
        others.append(Trajectory([turn], Stop.TERMINATED, not is_win, member=member, agent="b"))
    return Group(Ticket(0, 0, "train", 0, wins + losses, opponent=opponent), own, others=others)


def names(pool: Pool) -> list[str]:
    return [member.name for member in pool.members if member.is_active]


def test_the_oldest_member_leaves_and_stays_while_a_group_plays_it() -> None:
    pool = pool_of()
    for update in range(1, 4):
        pool.finish_update(update, [], {"update-000000"})
    assert names(pool) == ["update-000001", "update-000002", "update-000003"]
    assert [member.update for member in pool.members] == [0, 1, 2, 3]
    pool.finish_update(4, [], set())
    assert [member.update for member in pool.members] == [2, 3, 4]


def test_a_member_has_the_weights_of_its_update() -> None:
    pool = pool_of()
    before = pool.model.weight.detach().clone()  # type: ignore[union-attr]
    with torch.no_grad():
        pool.model.weight.add_(1.0)  # type: ignore[operator, union-attr]
    pool.finish_update(1, [], set())
    first, second = (member.model.weight for member in pool.members)
    assert torch.equal(first, before) and torch.equal(second, before + 1)  # type: ignore[arg-type]


def test_ratings_follow_results_and_a_member_enters_with_the_policys() -> None:
    pool = pool_of()
    logged = pool.finish_update(1, [games("update-000000", wins=3, losses=1)], set())
    assert (pool.members[0].rating, pool.rating, pool.members[1].rating) == (-8.0, 8.0, 8.0)  # 32 (3/4 - 1/2)
    assert (logged["pool/members"], logged["pool/rating"], logged["pool/score"]) == (2.0, 8.0, 0.75)
    assert pool.members[0].policy_score == 0.75 and pool.members[1].policy_score == 0.5


def test_rules_choose_whom_they_say() -> None:
    group = games("update-000000", wins=7, losses=1), games("update-000001", wins=0, losses=8)
    counts = {}
    for rule in ("uniform", "latest", "pfsp"):
        pool = pool_of(rule)
        pool.finish_update(1, [], set())
        pool.finish_update(2, group, set())
        counts[rule] = Counter(pool.choose(ticket) for ticket in range(2000))
    assert counts["latest"] == {"update-000002": 2000}
    assert all(600 < count < 730 for count in counts["uniform"].values()) and len(counts["uniform"]) == 3
    odds = [(1 - 7 / 8) ** 2, 1.0, 0.25]  # of the policy's scores 7/8, 0 and 1/2
    found = [counts["pfsp"][f"update-{update:06d}"] / 2000 for update in range(3)]
    assert found == pytest.approx([weight / sum(odds) for weight in odds], abs=0.04)
    mixed = pool_of(self_play=0.5)
    assert 900 < Counter(mixed.choose(ticket) for ticket in range(2000))[""] < 1100


def test_past_weights_play_the_other_seats_and_only_the_present_ones_learn(tmp_path: Path) -> None:
    out = train_run(*words("pool:every=2,size=2,self_play=0.3", updates=5), out=tmp_path / "run")
    met: set[str] = set()
    for update, logged in enumerate(metrics(out), 1):
        lines = rollouts(out, update)
        others = [line for line in lines if "player" in line]
        met |= {line["player"] for line in others}
        assert all(line["shaped_reward"] is None for line in others)
        sampled = sum(len(turn["ids"]) for line in lines if "player" not in line for turn in line["turns"])
        assert logged["tokens/sampled"] == sampled
        assert logged["pool/members"] == min(2, 1 + update // 2)
    assert "update-000000" in met and len(met) > 1
    state = read_state(out / "checkpoints/latest/trainer")
    assert [member["update"] for member in state["pool"]["members"]] == [2, 4]


@pytest.mark.parametrize(("rule", "lag"), [("pfsp", 0), ("uniform", 1)])
def test_a_killed_run_goes_on_bit_for_bit_with_its_pool(rule: str, lag: int, tmp_path: Path) -> None:
    command = words(f"pool:every=1,size=2,rule={rule}", updates=6, save_every=2, lag=lag)
    whole = train_run(*command, out=tmp_path / "whole")
    out = tmp_path / "run"
    die = ("rl.train.run_folder:RunFolder", "write_rollouts", 5)
    assert Child(*command, "--out", str(out), log=tmp_path / "log", die=die).wait().code == -signal.SIGKILL
    result = train("--resume", "--out", str(out))
    assert result.code == 0 and "resuming after update 4" in result.out, result.err
    assert_same_run(out, whole)
    states = [read_state(run / "checkpoints/latest/trainer")["pool"] for run in (out, whole)]
    for mine, theirs in zip(*(state["members"] for state in states), strict=True):
        weights = mine.pop("weights"), theirs.pop("weights")
        assert mine == theirs and all(torch.equal(weights[0][name], weights[1][name]) for name in weights[1])
    assert states[0]["rating"] == states[1]["rating"]


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ("pool:rule=best", "uniform, latest, pfsp"),
        ("pool:evry=2", "every"),
        ("pool:every=0", "at least 1"),
        ("pool:size=x", "int"),
        ("pool:self_play=1", "below 1"),
    ],
)
def test_a_wrong_pool_is_refused_in_one_line(spec: str, reason: str) -> None:
    assert reason in training_error(*words(spec), "--dry-run")


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ("pool:every", "every has no value; write every=VALUE"),
        ("pool:every=0", "every=0: must be at least 1"),
        ("pool:size=-1", "size=-1: must be at least 1"),
        ("pool:self_play=-0.5", "self_play=-0.5: must be at least 0 and below 1"),
        ("pool:self_play=nan", "self_play=nan: must be at least 0 and below 1"),
    ],
)
def test_an_option_that_cannot_be_is_named_with_its_value(spec: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        PoolOptions.parse(spec)
