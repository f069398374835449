"""How many episodes tasks get: by what came before, and by what the first episodes of their own groups were worth."""

from __future__ import annotations

import asyncio
import json
import signal
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from envs.env import Env
from envs.types import Outcome, Task, text, user
from rl.methods.estimators.tasks import allocation
from rl.methods.parts import allot, strategy
from rl.methods.parts.sampler import History
from rl.records import Group, Ticket
from tests.support.episodes import END, FixedPolicy, make_runner
from tests.support.runs import Child, assert_same_run, flags, metrics, rollouts, train, train_run

RNG = np.random.default_rng(0)


class Word(Env):
    """Is content with a reply that begins with `w`."""

    def tasks(self, split):
        return [Task(f"{split}/{i}", (user(f"task {i}"),)) for i in range(4)]

    def reply(self, action):
        won = text(action).startswith("w")
        return Outcome(reward=float(won), terminated=True, success=won)


class Wins(FixedPolicy):
    """Of a ticket, the members that are listed win."""

    def __init__(self, winners: dict[int, set[int]]) -> None:
        super().__init__()
        self.winners = winners

    async def sample(self, prompt, params, *, session="", resume_from=None):
        number, member = map(int, session.split("/")[:2])
        letter = ord("w") if member in self.winners.get(number, set()) else ord("l")
        return await FixedPolicy(lambda prompt: (letter, END)).sample(prompt, params, session=session)


def ticket(number: int, size: int = 8, wave: tuple[int, int] = (0, 0)) -> Ticket:
    return Ticket(number, number % 4, "train", 100 + number, size, wave=wave)


def play(part, *tickets: Ticket, winners: dict[int, set[int]]) -> list[Group]:
    """The groups of these tickets, played at the same time."""

    async def all_of_them() -> list[list[Group]]:
        runner = make_runner(Word, Wins(winners))
        return await asyncio.wait_for(asyncio.gather(*(part(runner, one) for one in tickets)), 20)

    return [group for (group,) in asyncio.run(all_of_them())]


@pytest.mark.parametrize("size, arms", [(2, {2, 3, 4}), (3, {2, 3, 4, 6}), (8, {4, 6, 8, 12, 16})])
def test_no_arm_has_one_episode_whose_advantage_would_be_zero(size: int, arms: set[int]) -> None:
    """Two bins of equally many tasks: what one is given less the other has more, where their scores say so."""
    part, history, seen = allot.arms(), History(4), set()
    part._bins = {0: "0", 1: "9"}
    for seed in range(60):
        rng = np.random.default_rng(seed)
        part._scores = {label: (9 * rng.normal(size=len(arms))).tolist() for label in ("0", "9")}
        first, second = part(history, [0, 1], size, RNG)
        assert first + second == 2 * size
        seen |= {first, second}
    assert seen <= arms and (size == 2 or min(seen) == min(arms))


def test_a_task_leaves_its_bin_of_arms_only_beyond_the_margin() -> None:
    part, history = allot.arms(), History(1)

    def bin_after(*outcomes: bool) -> str:
        for is_won in outcomes:
            history.record(0, float(is_won), successes=4 * is_won, size=4)
        part(history, [0], 4, RNG)
        return part._bin(0)

    assert bin_after(*[True, False] * 20) == "5"
    assert bin_after(False) == "5"  # 20 of 41: below the edge by less than 0.03
    assert bin_after(False, False) == "4"  # 20 of 43
    assert bin_after(True, True, True) == "4"  # 23 of 46: on the edge
    restored = allot.arms()
    restored.load_state_dict(json.loads(json.dumps(part.state_dict())))
    assert restored._bin(0) == "4"


@pytest.mark.parametrize("won, weigh, total", [(0, "equal", 32), (1, "equal", 19), (3, "equal", 9), (4, "equal", 8)])
def test_dars_plays_more_of_what_few_have_solved(won: int, weigh: str, total: int) -> None:
    part = partial(strategy.more_for_hard, weigh=weigh)
    (group,) = play(part, ticket(0), winners={0: set(range(won))})
    assert [member.member for member in group.trajectories] == list(range(total))
    assert sum(group.rewards) == won


def test_dars_may_weigh_hardness_within_its_limit() -> None:
    part = partial(strategy.more_for_hard, weigh="hardness", most=8.0)
    (group,) = play(part, ticket(0), winners={0: {3}})
    assert len(group.trajectories) == 8 + 24


def test_groups_opened_together_share_their_later_episodes() -> None:
    """Four episodes of each task first; the one whose rewards vary gets the four of the other too."""
    part = strategy.by_priority(bonus=0.0)
    pair = [ticket(2, wave=(2, 2)), ticket(3, wave=(2, 2))]
    groups = play(part, *pair, winners={2: {0, 1}, 3: set()})
    assert [len(group.trajectories) for group in groups] == [12, 4]
    assert part.state_dict() == {"waves": [], "done": []}
    alone = play(part, ticket(9), winners={})
    assert [len(group.trajectories) for group in alone] == [8]


def test_a_wave_s_budget_is_shared_once_and_each_quantile_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls, spend = [], allocation.spend
    monkeypatch.setattr(allocation, "spend", lambda *args, **kwargs: calls.append(1) or spend(*args, **kwargs))
    allocation._quantile.cache_clear()
    part = strategy.by_priority(bonus=0.0)
    groups = play(part, *(ticket(n, wave=(n // 2 * 2, 2)) for n in range(4)), winners={0: {0, 2}, 2: {1}})
    assert sum(len(group.trajectories) for group in groups) == 32 and len(calls) == 2
    counts = {size for size in range(2, 18)}
    assert allocation._quantile.cache_info().misses <= len(counts)


def test_a_budget_goes_one_by_one_to_the_highest_priority() -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        deviations, counts = rng.choice([0.0, 0.2, 0.5], 6).tolist(), rng.integers(1, 9, 6).tolist()
        numbers, order = list(counts), []
        for _ in range(20):
            pairs = zip(deviations, numbers, strict=True)
            worth = [allocation.priority(spread, count, sum(numbers), bonus=0.5) for spread, count in pairs]
            order.append(worth.index(max(worth)))
            numbers[order[-1]] += 1
        assert allocation.spend(deviations, counts, 20, bonus=0.5) == order
    assert allocation.spend([], [], 5, bonus=0.5) == []


def test_what_a_wave_waits_for_survives_an_interruption() -> None:
    """Ticket 2 has ended its first stage when the run ends; it gets what it would have got."""
    part, pair = strategy.by_priority(bonus=0.0), [ticket(2, wave=(2, 2)), ticket(3, wave=(2, 2))]

    async def interrupt() -> dict:
        task = asyncio.create_task(part(make_runner(Word, Wins({2: {0, 1}})), pair[0]))
        await asyncio.sleep(0.05)
        state = json.loads(json.dumps(part.state_dict()))
        task.cancel()
        return state

    resumed = strategy.by_priority(bonus=0.0)
    resumed.load_state_dict(asyncio.run(interrupt()))
    assert len(resumed.state_dict()["waves"]) == 1
    groups = play(resumed, *pair, winners={2: {0, 1}, 3: set()})
    assert [len(group.trajectories) for group in groups] == [12, 4]


def test_the_square_root_rule_keeps_the_budget() -> None:
    history = History(6)
    for task, mean in ((0, 0.5), (1, 0.0), (2, 1.0)):
        for _ in range(4):
            history.record(task, mean)
    sizes = allot.square_root(history, [0, 1, 2, 3], 8, RNG)
    assert sum(sizes) == 32
    assert sizes[0] == sizes[3] > sizes[1] == sizes[2] >= 2
    assert allot.square_root(history, [0], 8, RNG)[0] > 8 > allot.square_root(history, [1], 8, RNG)[0]
    assert allot.equal(history, [0, 1], 8, RNG) == [8, 8]
    assert allot.broad(history, [0], 8, RNG, times=16) == [128]


def test_whole_numbers_keep_their_sum_and_their_bounds() -> None:
    assert allocation.whole_numbers(np.array([5.4, 3.4, 1.2]), 10, least=1, most=16) == [6, 3, 1]
    assert allocation.whole_numbers(np.array([9.0, 0.5]), 8, least=2, most=6) == [6, 2]
    assert allocation.whole_numbers(np.array([9.0, 9.0]), 40, least=2, most=6) == [6, 6]


def test_arms_keep_the_budget_and_learn_what_their_bins_lose() -> None:
    part, history = allot.arms(eta=5.0), History(8)
    spent = []
    for update in range(40):
        indices = [0, 1, 2, 3]
        sizes = part(history, indices, 8, RNG)
        spent.append(sum(sizes))
        for task, size in zip(indices, sizes, strict=True):
            history.record(task, 0.0, successes=0 if task < 2 else size, size=size, update=update)
    assert set(spent) == {32}
    scores = part.state_dict()["scores"]
    assert sizes[0] == sizes[1] and sizes[2] == sizes[3]
    assert max(scores["0"]) > 0.9 > max(scores["9"])
    again = allot.arms(eta=5.0)
    again.load_state_dict(json.loads(json.dumps(part.state_dict())))
    assert again(history, [0, 2], 8, RNG) == part(history, [0, 2], 8, RNG)


@pytest.mark.parametrize("lag", [0, 2])
def test_a_killed_run_that_shares_episodes_goes_on_bit_for_bit(lag: int, tmp_path: Path) -> None:
    how = {"algo": "xrpo", "allot": "arms", "updates": 5, "groups": 3, "lag": lag}
    whole = train_run(*flags("Low", **how), out=tmp_path / "whole")
    played = {len([line for line in rollouts(whole, 2) if line["group"] == n]) for n in range(20)}
    assert len(played - {0}) > 1, "all groups have one size"
    assert 0 < metrics(whole)[-1]["tasks/coverage"] <= 1
    out = tmp_path / "run"
    die = ("rl.train.run_folder:RunFolder", "write_rollouts", 4)
    assert Child(*flags("Low", **how, save_every=2), "--out", str(out), log=tmp_path / "log", die=die).wait().code == (
        -signal.SIGKILL
    )
    ended = train("--resume", "--out", str(out))
    assert ended.code == 0, ended.err
    assert_same_run(out, whole)
