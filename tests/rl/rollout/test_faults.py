"""An error ends its own episode within the deadline, is retried, and is never scored."""

import asyncio
import sys
import threading
import time
from collections import Counter
from contextlib import nullcontext
from dataclasses import replace

import gymnasium
import pytest

from envs.types import Stop, assistant, user
from envs.watchdog import Watchdog
from rl.rollout.episode import play_episode
from rl.rollout.scripted import play_script
from tests.support.episodes import (
    BlockingCount,
    Count,
    FixedPolicy,
    LetterAgent,
    make_failing_env,
    make_hanging_env,
    make_runner,
    make_ticket,
    play_group,
    play_member,
    without_times,
)

# Faults


@pytest.mark.parametrize("env", [Count, BlockingCount])
@pytest.mark.parametrize("where", ["start", "reply"])
def test_a_fault_of_the_environment_ends_the_episode_as_errored(where, env):
    make, envs = make_failing_env(where, 1, env)
    runner = make_runner(make)
    record = play_member(runner)
    assert (record.stop, record.error, record.success) == (Stop.ERROR, f"OSError: no {where}", False)
    assert len(record.turns) == (where == "reply")
    runner.close()
    assert [env.closed for env in envs] == [1]


@pytest.mark.parametrize("env", [Count, BlockingCount])
def test_so_does_a_stop_iteration(env):
    make, _ = make_failing_env("reply", 1, env, StopIteration)
    record = play_member(make_runner(make))
    assert (record.stop, len(record.turns)) == (Stop.ERROR, 1)
    assert "StopIteration" in record.error


@pytest.mark.parametrize("reward", [float("nan"), float("inf")])
def test_so_is_a_reward_that_is_no_number(reward):
    class Pays(gymnasium.Wrapper):
        def step(self, action):
            return (*super().step(action)[:1], reward, *super().step(action)[2:])

    sampled_record = play_member(make_runner(lambda: Pays(Count())))
    by_script = play_script(Pays(Count()), make_ticket(), lambda env, turn: "a")
    for record in (sampled_record, by_script):
        assert (record.stop, record.turns) == (Stop.ERROR, [])
        assert f"the reward {reward}" in record.error


def test_an_environment_that_cannot_be_made_is_a_fault():
    def make():
        raise FileNotFoundError("no such image")

    assert play_member(make_runner(make)).error == "FileNotFoundError: no such image"


@pytest.mark.parametrize("method", ["open", "act", "observe"])
def test_so_is_an_agent_that_fails(method):
    agent = type("Fails", (LetterAgent,), {method: lambda self, *args: {}["missing"]})
    record = play_member(make_runner(agent=agent))
    assert (record.stop, record.error) == (Stop.ERROR, "KeyError: 'missing'")


def test_so_is_a_policy_that_fails():
    def broken(prompt):
        raise RuntimeError("sampling failed: out of memory")

    record = play_member(make_runner(policy=FixedPolicy(broken)))
    assert (record.stop, record.error) == (Stop.ERROR, "RuntimeError: sampling failed: out of memory")


@pytest.mark.parametrize("finish", ["deadline", "abort"])
def test_so_is_a_reply_that_its_policy_gave_up(finish):
    class GivesUp(FixedPolicy):
        async def sample(self, *args, **named):
            return replace(await super().sample(*args, **named), finish=finish)

    record = play_member(make_runner(policy=GivesUp()))
    assert (record.stop, record.turns) == (Stop.ERROR, [])
    assert record.error == "TimeoutError: the sampler gave up after 600 s"


def test_so_is_a_fault_that_the_environment_reports_itself():
    class Reports(Count):
        def step(self, action):
            *most, _ = super().step(action)
            return (*most[:2], False, True, {"stop": "error", "error": "the browser crashed"})

    runner = make_runner(Reports)
    by_script = play_script(Reports(), make_ticket(), lambda env, seed: iter([assistant("hi")]))
    for record in (play_member(runner), by_script):
        assert (record.stop, record.error) == (Stop.ERROR, "RuntimeError: the browser crashed")
    assert not runner._idle


def test_a_failed_member_is_played_again_in_a_sound_environment_and_nobody_else_notices():
    make, envs = make_failing_env("reply", 2)
    runner = make_runner(make)
    group = play_group(runner, make_ticket(size=4))
    assert sorted(t.member for t in group.trajectories) == [0, 1, 2, 3]
    assert sorted(t.member for t in group.errored) == [0, 1]
    assert {t.error for t in group.errored} == {"OSError: no reply"}
    sound = play_group(make_runner(), make_ticket(size=4))
    by_member = {t.member: t for t in group.trajectories}
    for trajectory in sound.trajectories:
        assert without_times(by_member[trajectory.member]) == without_times(trajectory)
    assert group.rewards == [0.5] * 4
    runner.close()
    assert [env.closed for env in envs] == [1] * len(envs)


def test_a_member_that_always_fails_is_left_out():
    class Unlucky(Count):
        def start(self):
            if self.index == 1:
                raise OSError("again")
            return super().start()

    runner = make_runner(Unlucky, retries=2)
    group = play_group(runner, make_ticket(index=1, size=2))
    assert (group.trajectories, group.rewards, len(group.errored)) == ([], [], 6)
    assert len(play_group(runner, make_ticket(1, index=0, size=2)).trajectories) == 2


def test_sound_environments_are_used_again():
    make, envs = make_failing_env("reply", 0)
    runner = make_runner(make)
    for number in range(3):
        play_group(runner, make_ticket(number, size=2))
    assert [env.num_starts for env in envs] == [3, 3]
    runner.close()
    assert [env.closed for env in envs] == [1, 1]


def test_an_environment_that_fails_to_close_keeps_no_other_from_it_and_stops_no_run(caplog):
    make, envs = make_failing_env("reply", 0)
    runner = make_runner(make)
    play_group(runner, make_ticket(size=4))
    envs[1].close, envs[2].close = lambda: [].pop(), lambda: sys.exit(3)
    runner.close()
    assert [envs[0].closed, envs[3].closed] == [1, 1]
    for message, error in zip(
        sorted(caplog.messages), ("IndexError: pop from empty list", "SystemExit: 3"), strict=True
    ):
        assert message.startswith(f"an environment failed to close: {error} ({__file__}, line ")


def test_a_cancelled_episode_leaves_no_open_environment_and_no_session():
    make, envs = make_failing_env("reply", 0)
    policy = FixedPolicy()
    runner = make_runner(make, policy)

    async def leave():
        task = asyncio.create_task(play_episode(runner, make_ticket(), 0))
        while len(policy.requests) < 2:
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return task.cancelled()

    assert asyncio.run(leave())
    runner.close()
    assert [env.closed for env in envs] == [1]
    assert runner.play_state.state_dict() == {"live": {}, "finished": {}, "failed": {}}
    assert policy.releases == {"0/0": 1}


# Deadlines


def test_an_environment_that_hangs_is_given_up_within_its_deadline():
    make, gate = make_hanging_env()
    runner = make_runner(make, step_s=0.3)
    record = play_member(runner)
    assert record.stop == Stop.ERROR
    label = f"Hangs: step of task train/1 seed {make_ticket().seed} member 0"
    assert record.error == f"Overrun: {label} took longer than 0.3 s (--step-seconds)"
    runner.close()
    assert gate.is_set()


def test_one_that_hangs_does_not_hold_up_the_others():
    make, gate = make_hanging_env()

    async def both():
        slow = asyncio.create_task(play_episode(make_runner(make, step_s=20.0), make_ticket(), 0))
        quick = await play_episode(make_runner(BlockingCount), make_ticket(1), 0)
        assert not slow.done()
        gate.set()
        return quick, await slow

    assert [record.stop for record in asyncio.run(both())] == [Stop.TERMINATED, Stop.TERMINATED]


def test_a_timeout_of_the_environments_own_is_not_called_ours():
    make, _ = make_failing_env("reply", 1, BlockingCount, TimeoutError)
    assert play_member(make_runner(make)).error == "TimeoutError: no reply"


def test_a_thread_is_used_only_by_environments_that_wait():
    is_main_thread = set()

    def noting(env):
        def reply(self, action):
            is_main_thread.add(threading.current_thread() is threading.main_thread())
            return env.reply(self, action)

        return type("Noting", (env,), {"reply": reply})

    play_member(make_runner(noting(Count)))
    assert is_main_thread == {True}
    is_main_thread.clear()
    play_member(make_runner(noting(BlockingCount)))
    assert is_main_thread == {False}


class Foreign(gymnasium.Env):
    """Knows nothing of ours but the messages."""

    threads: Counter = Counter()  # noqa: RUF012 (shared on purpose)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.threads[threading.current_thread().name] += 1
        return (user("hello"),), {}

    def step(self, action):
        self.threads[threading.current_thread().name] += 1
        return (), 1.0, True, False, {}


def test_a_foreign_environment_is_played_in_threads_and_judged_by_its_reward():
    record = play_member(make_runner(lambda: gymnasium.wrappers.TimeLimit(Foreign(), 5)))
    assert (record.stop, record.success, record.reward, record.task) == (Stop.TERMINATED, True, 1.0, "train/1")
    assert Foreign.threads == {"env": 2}


@pytest.mark.parametrize("reward, success", [(0.5, True), (0.0, False), (-1.0, False)])
def test_without_a_verdict_only_a_positive_return_is_a_success(reward, success):
    """A foreign environment that terminates says nothing about success, so its return decides."""
    make = type("Pays", (Foreign,), {"step": lambda self, action: ((user("bye"),), reward, True, False, {})})
    sampled_record = play_member(make_runner(make))
    by_script = play_script(make(), make_ticket(), lambda env, seed: iter([assistant("hi")]))
    for record in (sampled_record, by_script):
        assert (record.stop, record.reward, record.success) == (Stop.TERMINATED, reward, success)


def test_a_foreign_time_limit_is_a_turn_limit():
    endless = type("Endless", (Foreign,), {"step": lambda self, action: ((user("on"),), 0.0, False, False, {})})
    record = play_member(make_runner(lambda: gymnasium.wrappers.TimeLimit(endless(), 2)))
    assert (record.stop, record.success, len(record.turns)) == (Stop.TURN_LIMIT, False, 2)


class Endless(Count):
    """Never comes back, and catches what would bring it back a few times."""

    catches = 0

    def reply(self, action):
        num_caught = 0
        while True:
            try:
                while True:
                    pass
            except BaseException:
                num_caught += 1
                if num_caught > self.catches:
                    raise


@pytest.mark.parametrize("catches", [0, 2])
def test_an_endless_loop_on_the_event_loops_thread_is_interrupted(catches):
    make = type("Stubborn", (Endless,), {"catches": catches})
    record = play_member(make_runner(make, step_s=0.3, watchdog=Watchdog()), watchdog=True)
    label = f"Stubborn: step of task train/1 seed {make_ticket().seed} member 0"
    assert (record.stop, record.error) == (Stop.ERROR, f"Overrun: {label} took longer than 0.3 s (--step-seconds)")


@pytest.mark.parametrize("is_paused", [True, False])
def test_an_update_longer_than_a_deadline_costs_no_episode_in_flight(is_paused):
    """The learner occupies the event loop while a thread plays a step, which ends later."""
    make, gate = make_hanging_env()
    runner = make_runner(make, step_s=0.5, retries=0)

    async def train_meanwhile():
        episode = asyncio.create_task(play_episode(runner, make_ticket(), 0))
        while not any(thread.name == "env" for thread in threading.enumerate()):
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.1)
        with runner.clock.paused() if is_paused else nullcontext():
            time.sleep(1.0)
        asyncio.get_running_loop().call_later(0.1, gate.set)
        return await episode

    assert asyncio.run(train_meanwhile()).stop == (Stop.TERMINATED if is_paused else Stop.ERROR)


def test_an_interruption_never_arrives_after_the_call_it_was_for():
    watchdog = Watchdog(lambda line: None)
    outcomes = Counter()
    with watchdog.running(interval_s=0.001):
        for n in range(60):
            try:
                watchdog.call("a nap", 0.0005, time.sleep, 0.0001 * (n % 12))
                outcomes["in time"] += 1
            except Exception as error:
                outcomes[type(error).__name__] += 1
            sum(range(2000))  # where a stray interruption would show
    assert set(outcomes) <= {"in time", "Overrun"}
    assert outcomes["in time"] > 0


def test_the_watchdog_names_each_late_wait_once():
    lines = []
    watchdog = Watchdog(lines.append)
    with watchdog.running(interval_s=0.01), watchdog.waiting("the grader", 0.02), watchdog.waiting("dinner", 60.0):
        time.sleep(0.2)
    assert [line.partition(": ")[2] for line in lines] == ["the grader"]
