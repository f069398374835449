"""The parts of DART-GUI: fewer episodes for what succeeds, shorter ones by past successes, turns as rows."""

from __future__ import annotations

import asyncio
import signal
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from envs.env import Env
from envs.types import Outcome, Stop, Task, text, user
from rl.methods.options import PartError
from rl.methods.parts import allot, credit, strategy
from rl.methods.parts.sampler import History
from rl.methods.recipe import Recipe, load, part
from rl.records import Group, Ticket
from tests.support.batches import make_group, make_trajectory
from tests.support.episodes import END, FixedPolicy, make_runner
from tests.support.runs import Child, assert_same_run, flags, metrics, rollouts, train, train_run

RNG = np.random.default_rng(0)
WON, ON = (ord("w"), END), (ord("o"), END)


class Steps(Env):
    """Goes on until a reply begins with `w`; pays 0.125 for each turn, and is over by itself after 20."""

    max_turns = 20

    def tasks(self, split):
        return [Task(f"{split}/{i}", (user(f"task {i}"),)) for i in range(4)]

    def reply(self, action):
        won = text(action).startswith("w")
        return Outcome((user("."),), reward=0.125, terminated=won, success=won)


class WinsAfter(FixedPolicy):
    """Says "o" in all turns but number `turns`, in which it says "w"; 0 for never."""

    def __init__(self, turns: int) -> None:
        said: dict[str, int] = {}
        super().__init__()
        self.turns, self.said = turns, said

    async def sample(self, prompt, params, *, session="", resume_from=None):
        self.said[session] = self.said.get(session, 0) + 1
        reply = WON if self.said[session] == self.turns else ON
        return await FixedPolicy(lambda prompt: reply).sample(prompt, params, session=session)


def ticket(number: int, index: int = 0, *, version: int = 0, settled: int | None = None) -> Ticket:
    return Ticket(number, index, "train", 7, 2, version, number if settled is None else settled)


def play(part: strategy.bounded_replay, chosen: Ticket, turns: int) -> Group:
    (group,) = asyncio.run(asyncio.wait_for(part(make_runner(Steps, WinsAfter(turns)), chosen), 20))
    return group


def lengths(group: Group) -> list[int]:
    return [len(member.turns) for member in group.trajectories if not member.replayed]


def test_an_episode_is_cut_off_at_the_length_of_past_successes_times_the_slack() -> None:
    bounded = strategy.bounded_replay(slack=1.5, shortest=2, longest=12)
    assert lengths(play(bounded, ticket(0), 0)) == [12, 12]  # no success yet: the largest limit
    assert lengths(play(bounded, ticket(1), 5)) == [5, 5]
    failed = play(bounded, ticket(2), 0)
    assert lengths(failed) == [8, 8]  # 1.5 * 5, rounded up
    assert [member.stop for member in failed.trajectories] == [Stop.TURN_LIMIT] * 2 + [Stop.TERMINATED]
    assert [member.success for member in failed.trajectories] == [False, False, True]
    assert failed.rewards == [1.0, 1.0, 0.625]  # what was paid is kept
    assert lengths(play(bounded, ticket(3, index=1), 0)) == [12, 12]  # another task


def test_the_limit_may_grow_again_and_keeps_to_its_bounds() -> None:
    bounded = strategy.bounded_replay(slack=1.5, shortest=4, longest=7)
    play(bounded, ticket(0), 1)
    assert bounded.limit(ticket(1)) == 4
    play(bounded, ticket(1), 4)
    assert bounded.limit(ticket(2)) == 6
    play(bounded, ticket(2), 6)
    assert bounded.limit(ticket(3)) == 7
    assert bounded.limit(ticket(3, index=1)) == 7


@pytest.mark.parametrize("changed", [{"settled": 0}, {"version": 101}], ids=["not used up yet", "too old"])
def test_a_success_sets_no_limit_that_is(changed: dict[str, int]) -> None:
    bounded = strategy.bounded_replay(shortest=2)
    play(bounded, ticket(0), 2)
    assert bounded.limit(ticket(1)) == 3
    assert bounded.limit(ticket(1, **changed)) == 50


def test_limits_are_saved() -> None:
    bounded, other = strategy.bounded_replay(shortest=2), strategy.bounded_replay(shortest=2)
    play(bounded, ticket(0), 3)
    other.load_state_dict(bounded.state_dict())
    assert other.limit(ticket(1)) == bounded.limit(ticket(1)) == 5


def test_bounds_that_exclude_each_other_are_named() -> None:
    with pytest.raises(PartError, match="shortest=9 is above longest=8; give a shortest of at most longest"):
        part("strategy", "bounded_replay:shortest=9,longest=8")
    assert part("strategy", "bounded_replay:slack=2,added=3") == strategy.bounded_replay(slack=2.0, added=3)


def recorded(*results: tuple[int, int, int]) -> History:
    """Of groups `(task, successes, size)`."""
    history = History(4)
    for task, successes, size in results:
        history.record(task, 0.0, successes=successes, size=size)  # whatever a success pays
    return history


def test_tasks_that_mostly_succeed_get_fewer_episodes() -> None:
    history = recorded((0, 6, 10), (1, 8, 10), (2, 8, 8), (2, 8, 8))
    assert allot.fewer_for_easy(history, [0, 1, 2, 3, 1], 8, RNG) == [8, 5, 2, 8, 5]
    assert allot.fewer_for_easy(history, [1, 2], 8, RNG, above=0.9, least=4) == [8, 4]
    assert allot.fewer_for_easy(history, [2], 1, RNG) == [1]
    assert allot.fewer_for_easy(history, [2], 8, RNG, above=1.0) == [8]


def test_only_the_last_groups_of_a_task_say_how_easy_it_is() -> None:
    history = recorded((0, 0, 8), (0, 0, 8), *[(0, 8, 8)] * 4)
    assert allot.fewer_for_easy(history, [0], 8, RNG) == [2]
    assert allot.fewer_for_easy(history, [0], 8, RNG, window=6) == [7]  # 32 of 48: 2 + 6 * (1/3) / 0.4


def test_step_wise_comparison_counts_a_trajectory_as_often_as_it_has_turns() -> None:
    long, short = make_trajectory((2, 0.0), (1, 0.0), (1, 0.0)), make_trajectory((2, 1.0))
    norm = Recipe().normalization
    (credits,) = credit.outcome([make_group(long, short)], norm, unit="turn")
    assert [tokens.tolist() for tokens in credits] == [[-0.25] * 4, [0.75] * 2]
    (whole,) = credit.outcome([make_group(long, short)], norm)
    assert [tokens.tolist() for tokens in whole] == [[-0.5] * 4, [0.5] * 2]


def test_the_recipe_trains_four_turns_of_five() -> None:
    recipe = load("dart")
    group = make_group(make_trajectory(*[(1, 0.0)] * 3), make_trajectory((1, 0.0), (1, 1.0)))
    credits = recipe.credit([group], recipe.normalization)
    (kept,) = partial(recipe.reweigh[0])([group], credits)
    assert sum(float(x) != 0 for tokens in kept for x in tokens) == 4
    assert (recipe.strategy.shortest, recipe.strategy.longest, recipe.strategy.when) == (4, 50, "failed")


@pytest.mark.parametrize("lag", [0, 2])
def test_a_killed_run_with_limits_goes_on_bit_for_bit(lag: int, tmp_path: Path) -> None:
    """Episodes of `Talk` take up to four turns; the limits of tasks that have succeeded in one turn are of two."""
    how = {"algo": "dart", "updates": 9, "groups": 4, "lag": lag}
    how |= {"strategy": "bounded_replay:keep=1,slack=1.1,shortest=1,longest=3"}
    whole = train_run(*flags("Talk", **how), out=tmp_path / "whole")
    lines = [line for update in range(1, 10) for line in rollouts(whole, update) if not line["replayed"]]
    cut = {len(line["turns"]) for line in lines if line["stop"] == "turn_limit"}
    assert cut >= {2, 3}
    assert all(np.isfinite(line["grad_norm"]) for line in metrics(whole))
    out = tmp_path / "run"
    die = ("rl.train.run_folder:RunFolder", "write_rollouts", 8)
    words = flags("Talk", **how, save_every=2)
    assert Child(*words, "--out", str(out), log=tmp_path / "log", die=die).wait().code == -signal.SIGKILL
    ended = train("--resume", "--out", str(out))
    assert ended.code == 0, ended.err
    assert_same_run(out, whole)
