"""Recorded successes in groups that found none: which ones, how old, how marked, and exactly the same when resumed."""

from __future__ import annotations

import asyncio
import pickle
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from envs.env import Env
from envs.types import Outcome, Task, text, user
from rl.learner import batch
from rl.learner.diagnostics import Diagnostics
from rl.learner.packing import Columns
from rl.methods.parts import strategy
from rl.methods.recipe import load, part
from rl.records import Group, Ticket
from rl.train.rollout_metrics import rollout_metrics
from sandboxes import SandboxBusy
from tests.support.batches import make_tokens
from tests.support.episodes import END, FixedPolicy, make_runner
from tests.support.runs import Child, assert_same_run, flags, metrics, rollouts, train, train_run

WON, LOST, ALSO = (ord("w"), END), (ord("l"), END), (ord("w"), ord("w"), END)


class Word(Env):
    """Says its task, and is content with a reply that begins with `w`; has no place for `?`."""

    opening = "task"

    def tasks(self, split):
        return [Task(f"{split}/{i}", (user(f"{self.opening} {i}"),)) for i in range(4)]

    def reply(self, action):
        if text(action) == "?":
            raise SandboxBusy("no answer")
        won = text(action).startswith("w")
        return Outcome(reward=float(won), terminated=True, success=won)


class Renamed(Word):
    opening = "problem"


class Draws(Word):
    """Opens with other words for every seed."""

    def start(self):
        return (user(f"{self.np_random.integers(1000)}"),)


def ticket(number: int, index: int = 0, *, version: int = 0, settled: int | None = None, size: int = 2) -> Ticket:
    return Ticket(number, index, "train", 100 + number, size, version, number if settled is None else settled)


class Script(FixedPolicy):
    """Member `m` says `said[m]`, or the last of these."""

    def __init__(self, replies: tuple[tuple[int, ...], ...]) -> None:
        super().__init__()
        self.said = replies

    async def sample(self, prompt, params, *, session="", resume_from=None):
        member = min(int(session.rpartition("/")[2]), len(self.said) - 1)
        return await FixedPolicy(lambda prompt: self.said[member]).sample(prompt, params)


def play(part: strategy.replay, chosen: Ticket, *replies: tuple[int, ...], env: type[Env] = Word) -> Group:
    """The group in which its members say this."""
    (group,) = asyncio.run(asyncio.wait_for(part(make_runner(env, Script(replies), retries=1), chosen), 20))
    return group


def added(group: Group) -> list[tuple[int, ...]]:
    return [member.turns[0].completion.ids for member in group.trajectories if member.replayed]


def test_a_success_joins_a_later_group_of_its_task_that_found_none() -> None:
    remembers = strategy.replay()
    first = play(remembers, ticket(0), LOST, WON)
    assert added(first) == []
    other = play(remembers, ticket(1, index=1), LOST)
    assert added(other) == []
    result = play(remembers, ticket(2, version=3), LOST)
    fresh, put_in = result.trajectories[:2], result.trajectories[2]
    assert [member.replayed for member in fresh] == [False, False]
    assert put_in.replayed and put_in.success and put_in.member == 2
    assert replace(put_in, member=1, replayed=False) == first.trajectories[1]
    assert result.rewards == [0.0, 0.0, 1.0]
    assert added(play(remembers, ticket(3, version=3), LOST, ALSO)) == []


def test_its_ratio_is_against_the_policy_that_sampled_it() -> None:
    remembers = strategy.replay()
    recorded = play(remembers, ticket(0), WON).trajectories[0].turns[0].completion
    rows = batch.build_rows([play(remembers, ticket(1), LOST)], load("grpo"))
    assert [row.replayed for row in rows] == [False, False, True]
    np.testing.assert_allclose(rows[2].old, recorded.logprobs)
    assert rows[2].adv[0] > 0 > rows[0].adv[0]


def test_the_successes_are_as_many_as_asked_and_none_of_them_twice() -> None:
    remembers = strategy.replay(added=3, when="unsolved", keep=4)
    play(remembers, ticket(0), WON, ALSO)
    play(remembers, ticket(1), WON)
    assert sorted(added(play(remembers, ticket(2), LOST))) == sorted([WON, ALSO])
    assert added(play(remembers, ticket(3), LOST, WON)) == [ALSO]
    assert added(play(remembers, ticket(4), WON)) == []
    assert len(added(play(strategy.replay(), ticket(5), LOST))) == 0


def test_only_the_latest_of_a_task_are_remembered() -> None:
    remembers = strategy.replay(added=9, keep=2)
    for number, word in enumerate(("wa", "wb", "wc")):
        play(remembers, ticket(number), (*map(ord, word), END), LOST)
    assert sorted(added(play(remembers, ticket(3), LOST))) == [(*map(ord, word), END) for word in ("wb", "wc")]


@pytest.mark.parametrize(
    "changed, env",
    [({"version": 6}, Word), ({"settled": 0}, Word), ({"index": 2}, Word), ({}, Renamed)],
    ids=["too old", "not used up yet", "another task", "another opening"],
)
def test_a_success_is_left_out_that_is(changed: dict, env: type[Env]) -> None:
    remembers = strategy.replay(oldest=5)
    play(remembers, ticket(0), WON)
    assert added(play(remembers, ticket(1, **changed), LOST, env=env)) == []
    fine = {"version": 5} if "version" in changed else {}
    play(remembers, ticket(2), WON)
    assert added(play(remembers, ticket(3, **fine), LOST)) == [WON]


def test_a_success_of_another_initial_state_is_left_out() -> None:
    remembers = strategy.replay()
    play(remembers, ticket(0), WON, env=Draws)
    assert added(play(remembers, ticket(1), LOST, env=Draws)) == []
    assert added(play(remembers, replace(ticket(2), seed=100), LOST, env=Draws)) == [WON]


def test_a_member_that_failed_by_a_fault_of_ours_is_neither_remembered_nor_counted() -> None:
    remembers = strategy.replay(when="unsolved")
    group = play(remembers, ticket(0), (ord("?"), END), WON)
    assert len(group.errored) == 2 and len(group.trajectories) == 1
    assert added(play(remembers, ticket(1), (ord("?"), END), LOST)) == [WON]
    alone = play(remembers, ticket(2), (ord("?"), END))
    assert alone.trajectories == [] and alone.rewards == []


def test_tasks_long_unseen_are_forgotten() -> None:
    remembers = strategy.replay(oldest=5)
    for index in range(4):
        play(remembers, ticket(index, index, version=index), WON)
    assert len(remembers.state_dict()["kept"]) == 4
    play(remembers, ticket(9, 0, version=7), LOST)
    assert set(remembers.state_dict()["kept"]) == {("train", 2), ("train", 3)}


def test_which_group_ends_first_changes_nothing() -> None:
    """Tickets 1 and 2 were opened before either had been used up."""
    result = []
    for order in ((1, 2), (2, 1)):
        remembers = strategy.replay(added=1, keep=2)
        play(remembers, ticket(0), WON)
        replies = {1: (ALSO, LOST), 2: (LOST,)}
        groups = {n: play(remembers, ticket(n, settled=1), *replies[n]) for n in order}
        later = play(remembers, ticket(3), LOST)
        result.append((added(groups[1]), added(groups[2]), added(later)))
    assert result[0] == result[1]
    assert result[0][1] == [WON]


def test_a_ticket_still_open_keeps_what_it_may_use() -> None:
    """Ticket 1 is slow; meanwhile its task is won so often that its only success would be crowded out."""
    remembers = strategy.replay(keep=1)
    play(remembers, ticket(0), WON)
    gate = asyncio.Event()

    class Waits(FixedPolicy):
        async def sample(self, prompt, params, *, session="", resume_from=None):
            await gate.wait()
            return await super().sample(prompt, params, session=session, resume_from=resume_from)

    async def both() -> list[Group]:
        slow = asyncio.create_task(remembers(make_runner(Word, Waits(lambda prompt: LOST)), ticket(1)))
        await asyncio.sleep(0)
        await remembers(make_runner(Word, FixedPolicy(lambda prompt: ALSO)), ticket(2, settled=1))
        await remembers(make_runner(Word, FixedPolicy(lambda prompt: ALSO)), ticket(3, settled=1))
        gate.set()
        return await slow

    assert added(asyncio.run(both())[0]) == [WON]
    assert added(play(remembers, ticket(4), LOST)) == [ALSO]


def test_what_is_remembered_survives_being_saved() -> None:
    remembers = strategy.replay(keep=3)
    play(remembers, ticket(0), WON, ALSO)
    state = pickle.loads(pickle.dumps(remembers.state_dict()))
    restored = strategy.replay(keep=3)
    restored.load_state_dict(state)
    assert play(restored, ticket(1), LOST).trajectories[2] == play(remembers, ticket(1), LOST).trajectories[2]


def test_replayed_episodes_are_counted_as_nothing_else() -> None:
    remembers = strategy.replay()
    play(remembers, ticket(0), WON)
    group = play(remembers, ticket(1), LOST)
    result, plain = (
        rollout_metrics([group], [group]),
        rollout_metrics([replace(group, trajectories=group.trajectories[:2])], [group]),
    )
    assert result.pop("episodes/replayed") == 1 and plain.pop("episodes/replayed") == 0
    assert result == plain
    assert (result["episodes/played"], result["success/mean"], result["groups/zero_variance"]) == (2, 0, 1)


def test_the_mismatch_of_sampler_and_trainer_is_measured_on_what_was_sampled_now() -> None:
    played = strategy.replay()
    play(played, ticket(0), WON)
    rows = batch.build_rows([play(played, ticket(1), LOST)], load("grpo"))
    columns = Columns(rows, "cpu")  # type: ignore[arg-type]
    moved = [[-0.1, -0.2], [-0.1, -0.2], [-3.1, -3.2]]
    seen = Diagnostics()
    made = make_tokens(moved, columns.pad(lambda row: row.old).tolist(), [0.0] * 3, labels=columns.labels())
    seen.add(made, made.logp.sum().detach())
    seen.end_step(1.0)
    assert seen.means()["kl/sampler_trainer"] == pytest.approx(0.0, abs=1e-6)
    assert seen.means()["ratio/log_max"] == pytest.approx(3.0, abs=1e-6)


def test_it_has_words() -> None:
    assert part("strategy", "replay:added=2,when=unsolved") == strategy.replay(added=2, when="unsolved")
    with pytest.raises(ValueError, match="added='0' is not a whole number of at least 1"):
        part("strategy", "replay:added=0")


@pytest.mark.parametrize("lag", [0, 2])
def test_a_killed_run_with_replays_goes_on_bit_for_bit(lag: int, tmp_path: Path) -> None:
    """Twelve tasks, so that each comes back every third update."""
    how = {"algo": "rlep", "updates": 9, "groups": 4, "lag": lag, "strategy": "replay:added=1,when=unsolved"}
    whole = train_run(*flags("Low", **how), out=tmp_path / "whole")
    replayed = [line["episodes/replayed"] for line in metrics(whole)]
    assert sum(replayed) > 0
    lines = rollouts(whole, 1 + int(np.argmax(replayed)))
    assert any(line["replayed"] and line["success"] for line in lines)
    out = tmp_path / "run"
    words = flags("Low", **how, save_every=2)
    die = ("rl.train.run_folder:RunFolder", "write_rollouts", 8)
    assert Child(*words, "--out", str(out), log=tmp_path / "log", die=die).wait().code == -signal.SIGKILL
    ended = train("--resume", "--out", str(out))
    assert ended.code == 0, ended.err
    assert_same_run(out, whole)
