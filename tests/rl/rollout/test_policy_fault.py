"""A fault that the same replies cause again in a fresh environment is the policy's; any other one is not."""

from __future__ import annotations

import asyncio
import pickle

import pytest

from envs.exits import error_text
from envs.types import Outcome, Stop, assistant, text, user
from rl.methods.parts.strategy import independent
from rl.records import Completion
from rl.train.rollout_metrics import rollout_metrics
from sandboxes import SandboxBusy, SandboxDied, SandboxUnavailable
from tests.support.breakable import RAISES, WAYS, BlockingBreakable, Breakable, breaking_policy
from tests.support.episodes import (
    END,
    Count,
    FixedPolicy,
    make_runner,
    make_ticket,
    play_group,
    without_times,
)

IN_THREADS_ONLY = ("hang",)


IN_THE_LOOP_ONLY = ("loop",)


def play_breaking(env, way, *, turn=2, size=1, **limits):
    """The group of a policy that breaks the environment, with short deadlines."""
    runner = make_runner(env, breaking_policy(way, turn), reply_tokens=20, step_s=20.0, **limits)
    if way in ("hang", "loop"):
        runner.step_s = 0.2
    with runner.watchdog.running(interval_s=0.02):
        group = play_group(runner, make_ticket(size=size))
    Breakable.released.set()
    runner.close()
    return group, runner


@pytest.fixture(autouse=True)
def threads_that_hang():
    Breakable.released.clear()
    yield
    Breakable.released.set()


CASES = [
    (env, way)
    for way in WAYS
    for env in (Breakable, BlockingBreakable)
    if way not in (IN_THREADS_ONLY if env is Breakable else IN_THE_LOOP_ONLY)
]


@pytest.mark.parametrize("env, way", CASES, ids=[f"{way}-{env.__name__}" for env, way in CASES])
def test_who_breaks_its_place_has_failed(env, way):
    group, runner = play_breaking(env, way)
    (record,) = group.trajectories
    assert (record.stop, record.success, group.errored) == (Stop.POLICY_FAULT, False, [])
    assert [text(turn.reply) for turn in record.turns] == ["ok", "ok", f"break {way}"]
    assert [(turn.reward, turn.valid) for turn in record.turns] == [(0.25, True), (0.25, True), (0.0, False)]
    assert (record.reward, group.rewards, record.fault) == (0.5, [0.5], None)
    assert len(runner.policy.requests) == 3  # no reply is asked for twice
    if way in RAISES:
        assert record.error.partition(":")[0] == type(RAISES[way]).__name__
    assert runner.play_state.state_dict()["failed"] == {}
    pickle.dumps(record)


def test_a_break_in_the_first_turn_and_a_group_of_which_one_breaks_its_place():
    def reply(prompt):
        return (*map(ord, "break died" if next(letters) else "ok"), END)

    letters = iter([False, True, *[False] * 20])
    group = play_group(make_runner(Breakable, FixedPolicy(reply), reply_tokens=20), make_ticket(size=3))
    assert [t.stop for t in group.trajectories].count(Stop.POLICY_FAULT) == 1
    assert (sorted(group.rewards), group.errored) == ([0.0, 1.0, 1.0], [])
    metrics = rollout_metrics([group], [group])
    assert (metrics["episodes/policy_faults"], metrics["episodes/played"], metrics["episodes/errored"]) == (1, 3, 0)
    assert (metrics["reward/mean"], metrics["success/mean"]) == (pytest.approx(2 / 3), pytest.approx(2 / 3))
    assert metrics["truncated/mean"] == 0


# What is not the policy's


@pytest.mark.parametrize(
    "error",
    [
        SandboxUnavailable("no provider"),
        SandboxBusy("no place"),
        ConnectionRefusedError(111, "Connection refused"),
        RuntimeError("SandboxUnavailable: as the environment reports it"),
    ],
)
@pytest.mark.parametrize("how", ["itself", "its cause", "reported"])
def test_a_fault_of_the_infrastructure_is_never_the_policys(error, how):
    if how == "reported" and type(error) is RuntimeError:
        pytest.skip("a report has one type in its text")

    class Down(Breakable):
        def step(self, action):
            if text(action) != "break os":
                return super().step(action)
            if how == "itself":
                raise error
            if how == "its cause":
                raise OSError("it failed") from error
            return (), 0.0, False, True, {"stop": "error", "error": error_text(error)}

    group, _ = play_breaking(Down, "os")
    assert (group.trajectories, {t.stop for t in group.errored}, len(group.errored)) == ([], {Stop.ERROR}, 4)


@pytest.mark.parametrize("reward", [1e308, float("nan"), float("-inf")])
def test_an_environment_whose_every_reward_is_no_number_is_at_fault_itself(reward):
    class Generous(Breakable):
        def step(self, action):
            messages, _, *rest = super().step(action)
            return messages, reward, *rest

    group, _ = play_breaking(Generous, "os", turn=9)
    assert (group.trajectories, {t.stop for t in group.errored}) == ([], {Stop.ERROR})


def test_a_provider_that_is_down_fails_for_the_oracle_too():
    """Neither the reset nor a reply that does nothing notices."""

    class Sandboxed(Count):
        def reply(self, action):
            if text(action):
                raise SandboxDied("the provider is down")
            return super().reply(action)

        def oracle(self):
            while True:
                yield assistant("well")

    group = play_group(make_runner(Sandboxed), make_ticket(size=2))
    assert (group.trajectories, len(group.errored)) == ([], 8)


@pytest.mark.parametrize("outage", [1, 2, 3])
def test_an_outage_that_ends_blames_nobody(outage):
    calls = iter(range(10**6))

    class Down(Breakable):
        def step(self, action):
            if self.turns == 1 and next(calls) < outage:
                raise SandboxDied("the provider is down")
            return super().step(action)

    group = play_group(make_runner(Down), make_ticket())
    assert [t.stop for t in group.trajectories] == [Stop.TERMINATED]
    expected = play_group(make_runner(Breakable), make_ticket())
    assert without_times(group.trajectories[0]) == without_times(expected.trajectories[0])


def test_a_bug_that_depends_on_the_task_and_not_on_the_reply_is_the_environments():
    class Buggy(Count):  # without an oracle: the control gives replies that do nothing
        def reply(self, action):
            if self.turns == 1:
                raise KeyError("next")
            return super().reply(action)

    group = play_group(make_runner(Buggy), make_ticket())
    assert (group.trajectories, [t.error for t in group.errored]) == ([], ["KeyError: 'next'"] * 4)


def test_without_an_oracle_the_fault_of_a_reply_is_found_too():
    class Fragile(Count):
        def reply(self, action):
            if text(action) == "hi" and self.turns == 1:
                raise KeyError("hi")
            return super().reply(action)

    group = play_group(make_runner(Fragile), make_ticket())
    assert ([t.stop for t in group.trajectories], group.errored) == ([Stop.POLICY_FAULT], [])


@pytest.mark.parametrize("where", ["constructor", "reset"])
def test_a_fault_before_the_first_reply_is_never_the_policys(where):
    class Fails(Breakable):
        def __init__(self):
            super().__init__()
            if where == "constructor":
                raise SystemExit(3)

        def start(self):
            raise SystemExit(3)

    group = play_group(make_runner(Fails), make_ticket())
    assert (group.trajectories, [t.error for t in group.errored]) == ([], ["SystemExit: 3"] * 4)


def test_a_fault_that_does_not_happen_again_changes_nothing_and_samples_nothing():
    class Once(Breakable):
        failures = iter([True])

        def step(self, action):
            if self.turns == 2 and next(self.failures, False):
                raise OSError("once")
            return super().step(action)

    policy = FixedPolicy()
    group = play_group(make_runner(Once, policy), make_ticket())
    expected = play_group(make_runner(Breakable), make_ticket())
    assert without_times(group.trajectories[0]) == without_times(expected.trajectories[0])
    assert [t.error for t in group.errored] == ["OSError: once"]
    assert len(policy.requests) == 4


def test_a_second_fault_in_a_later_turn_is_tried_by_itself():
    class Twice(Breakable):
        failures = iter([True])

        def step(self, action):
            if self.turns == 1 and next(self.failures, False):
                raise OSError("once")
            return super().step(action)

    group, runner = play_breaking(Twice, "died", turn=3)
    assert [(t.stop, len(t.turns)) for t in group.trajectories] == [(Stop.POLICY_FAULT, 4)]
    assert [t.error for t in group.errored] == ["OSError: once"]  # ours, and no part of the other
    assert len(runner.policy.requests) == 4


@pytest.mark.parametrize("order", [(2, 0, 1, 0), (3, 2, 1, 0), (3, 0, 1, 2), (1, 0, 1)])
def test_a_fault_at_another_moment_each_time_is_the_policys_in_the_end(order):
    """For instance a process that an earlier command has started, which kills the place when it likes."""

    class Bomb(Breakable):
        moments = iter(order)

        def reset(self, **kwargs):
            self.fuse = None
            return super().reset(**kwargs)

        def step(self, action):
            if self.turns == 0 and text(action) == "ok":
                self.fuse = next(self.moments)
            if self.fuse == self.turns:
                raise SandboxDied("boom")
            return super().step(action)

    group, _ = play_breaking(Bomb, "none", turn=9)
    assert ([t.stop for t in group.trajectories], group.errored) == ([Stop.POLICY_FAULT], [])


def test_without_a_retry_nothing_is_tried():
    group, _ = play_breaking(Breakable, "died", retries=0)
    assert (group.trajectories, len(group.errored)) == ([], 1)


# Interruptions


class SlowBreakable(BlockingBreakable):
    """Waits in the step that breaks it, so that an attempt can be interrupted there."""

    gate = None

    def step(self, action):
        if text(action).startswith("break"):
            type(self).steps += 1
            if self.gate is not None and type(self).steps == self.stop_at:
                self.gate.wait(30)
        return super().step(action)

    steps = stop_at = 0


@pytest.mark.parametrize("attempt", [1, 2])
def test_a_run_that_is_killed_during_a_trial_ends_with_the_same_verdict(attempt):
    expected, _ = play_breaking(BlockingBreakable, "died")
    Breakable.released.clear()
    SlowBreakable.steps, SlowBreakable.stop_at, SlowBreakable.gate = 0, attempt, Breakable.released
    policy = breaking_policy("died")
    runner = make_runner(SlowBreakable, policy, reply_tokens=20, step_s=20.0)

    async def interrupted():
        task = asyncio.create_task(independent(runner, make_ticket()))
        while SlowBreakable.steps < attempt:
            await asyncio.sleep(0.001)
        state = pickle.loads(pickle.dumps(runner.play_state.state_dict()))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return state

    state = asyncio.run(interrupted())
    Breakable.released.set()
    turns, reply = state["live"]["0/0"]
    assert (len(turns), isinstance(reply, Completion)) == (2, True)
    assert len(state["failed"].get("0/0", [])) == attempt - 1
    again = breaking_policy("died")
    group = play_group(make_runner(BlockingBreakable, again, reply_tokens=20, state=state), make_ticket())
    assert [without_times(t) for t in group.trajectories] == [without_times(t) for t in expected.trajectories]
    assert (group.errored, again.requests) == ([], [])


def test_a_reward_of_a_wrong_end_is_not_kept():
    """What the environment has said before it failed is no part of the record."""

    class Pays(Breakable):
        def step(self, action):
            if text(action) == "break os":
                return (user("paid"),), 5.0, True, False, {"stop": "error"}
            return super().step(action)

    group, _ = play_breaking(Pays, "os")
    (record,) = group.trajectories
    assert (record.stop, record.reward, record.success, record.final) == (Stop.POLICY_FAULT, 0.5, False, ())


def test_an_outcome_that_is_huge_truncates_the_episode():
    class Huge(Breakable):
        def reply(self, action):
            return Outcome((user("x" * 5_000_000),), 0.0)

    group = play_group(make_runner(Huge), make_ticket())
    assert [t.stop for t in group.trajectories] == [Stop.TOKEN_LIMIT]
