"""A fault of ours ends an episode as errored within its deadline, and touches no other."""

import asyncio
import threading
import time
from collections import Counter
from dataclasses import replace

import gymnasium
import pytest

from envs.types import Stop, user
from rl.rollout.episode import episode, scripted
from rl.rollout.watchdog import Watchdog
from tests.support.episodes import Count, Plain, Says, Waiting, failing, group, hanging, play, player, ticket, timeless

# Faults


@pytest.mark.parametrize("env", [Count, Waiting])
@pytest.mark.parametrize("where", ["start", "reply"])
def test_a_fault_of_the_environment_ends_the_episode_as_errored(where, env):
    make, made = failing(where, 1, env)
    stage = player(make)
    record = play(stage)
    assert (record.stop, record.error, record.success) == (Stop.ERROR, f"OSError: no {where}", False)
    assert len(record.turns) == (where == "reply")
    stage.close()
    assert [env.closed for env in made] == [1]


@pytest.mark.parametrize("env", [Count, Waiting])
def test_so_does_a_stop_iteration(env):
    make, _ = failing("reply", 1, env, StopIteration)
    record = play(player(make))
    assert (record.stop, len(record.turns)) == (Stop.ERROR, 1)
    assert "StopIteration" in record.error


@pytest.mark.parametrize("reward", [float("nan"), float("inf")])
def test_so_is_a_reward_that_is_no_number(reward):
    class Pays(gymnasium.Wrapper):
        def step(self, action):
            return (*super().step(action)[:1], reward, *super().step(action)[2:])

    played = play(player(lambda: Pays(Count())))
    by_script = scripted(Pays(Count()), ticket(), lambda env, turn: "a")
    for record in (played, by_script):
        assert (record.stop, record.turns) == (Stop.ERROR, [])
        assert f"the reward {reward}" in record.error


def test_an_environment_that_cannot_be_made_is_a_fault():
    def make():
        raise FileNotFoundError("no such image")

    assert play(player(make)).error == "FileNotFoundError: no such image"


@pytest.mark.parametrize("method", ["open", "act", "observe"])
def test_so_is_an_agent_that_fails(method):
    agent = type("Fails", (Plain,), {method: lambda self, *args: {}["missing"]})
    record = play(player(agent=agent))
    assert (record.stop, record.error) == (Stop.ERROR, "KeyError: 'missing'")


def test_so_is_a_policy_that_fails():
    def broken(prompt):
        raise RuntimeError("sampling failed: out of memory")

    record = play(player(policy=Says(broken)))
    assert (record.stop, record.error) == (Stop.ERROR, "RuntimeError: sampling failed: out of memory")


@pytest.mark.parametrize("finish", ["deadline", "abort"])
def test_so_is_a_reply_that_its_policy_gave_up(finish):
    class GivesUp(Says):
        async def sample(self, *args, **named):
            return replace(await super().sample(*args, **named), finish=finish)

    record = play(player(policy=GivesUp()))
    assert (record.stop, record.turns) == (Stop.ERROR, [])
    assert record.error == "TimeoutError: the sampler gave up after 600 s"


def test_so_is_a_fault_that_the_environment_reports_itself():
    class Reports(Count):
        def step(self, action):
            *most, _ = super().step(action)
            return (*most[:2], False, True, {"stop": "error", "error": "the browser crashed"})

    stage = player(Reports)
    record = play(stage)
    assert (record.stop, record.error) == (Stop.ERROR, "RuntimeError: the browser crashed")
    assert not stage._idle


def test_a_failed_member_is_played_again_in_a_sound_environment_and_nobody_else_notices():
    make, made = failing("reply", 2)
    stage = player(make)
    played = group(stage, ticket(size=4))
    assert sorted(t.member for t in played.trajectories) == [0, 1, 2, 3]
    assert sorted(t.member for t in played.errored) == [0, 1]
    assert {t.error for t in played.errored} == {"OSError: no reply"}
    sound = group(player(), ticket(size=4))
    by_member = {t.member: t for t in played.trajectories}
    for trajectory in sound.trajectories:
        assert timeless(by_member[trajectory.member]) == timeless(trajectory)
    assert played.rewards == [0.5] * 4
    stage.close()
    assert [env.closed for env in made] == [1] * len(made)


def test_a_member_that_always_fails_is_left_out():
    class Unlucky(Count):
        def start(self):
            if self.index == 1:
                raise OSError("again")
            return super().start()

    stage = player(Unlucky, retries=2)
    played = group(stage, ticket(index=1, size=2))
    assert (played.trajectories, played.rewards, len(played.errored)) == ([], [], 6)
    assert len(group(stage, ticket(1, index=0, size=2)).trajectories) == 2


def test_sound_environments_are_used_again():
    make, made = failing("reply", 0)
    stage = player(make)
    for number in range(3):
        group(stage, ticket(number, size=2))
    assert [env.begun for env in made] == [3, 3]
    stage.close()
    assert [env.closed for env in made] == [1, 1]


def test_an_environment_that_fails_to_close_keeps_no_other_from_it():
    make, made = failing("reply", 0)
    stage = player(make)
    group(stage, ticket(size=3))
    made[1].close = lambda: [].pop()
    with pytest.raises(IndexError):
        stage.close()
    assert [made[0].closed, made[2].closed] == [1, 1]


def test_a_cancelled_episode_leaves_no_open_environment_and_no_session():
    make, made = failing("reply", 0)
    policy = Says()
    stage = player(make, policy)

    async def leave():
        task = asyncio.create_task(episode(stage, ticket(), 0))
        while len(policy.asked) < 2:
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return task.cancelled()

    assert asyncio.run(leave())
    stage.close()
    assert [env.closed for env in made] == [1]
    assert (stage.live, stage.in_flight()) == ({}, {})
    assert policy.released == {"0/0": 1}


# Deadlines


def test_an_environment_that_hangs_is_given_up_within_its_deadline():
    make, gate = hanging()
    stage = player(make, step_s=0.3)
    record = play(stage)
    assert record.stop == Stop.ERROR
    assert record.error == f"StepTimeout: step of task train/1 seed {ticket().seed} member 0 took longer than 0.3 s"
    stage.close()
    assert gate.is_set()


def test_one_that_hangs_does_not_hold_up_the_others():
    make, gate = hanging()

    async def both():
        slow = asyncio.create_task(episode(player(make, step_s=20.0), ticket(), 0))
        quick = await episode(player(Waiting), ticket(1), 0)
        assert not slow.done()
        gate.set()
        return quick, await slow

    assert [record.stop for record in asyncio.run(both())] == [Stop.TERMINATED, Stop.TERMINATED]


def test_a_timeout_of_the_environments_own_is_not_called_ours():
    make, _ = failing("reply", 1, Waiting, TimeoutError)
    assert play(player(make)).error == "TimeoutError: no reply"


def test_a_thread_is_used_only_by_environments_that_wait():
    seen = set()

    def noting(env):
        def reply(self, action):
            seen.add(threading.current_thread() is threading.main_thread())
            return env.reply(self, action)

        return type("Noting", (env,), {"reply": reply})

    play(player(noting(Count)))
    assert seen == {True}
    seen.clear()
    play(player(noting(Waiting)))
    assert seen == {False}


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
    record = play(player(lambda: gymnasium.wrappers.TimeLimit(Foreign(), 5)))
    assert (record.stop, record.success, record.reward, record.task) == (Stop.TERMINATED, True, 1.0, "train/1")
    assert Foreign.threads == {"env": 2}


def test_a_foreign_time_limit_is_a_turn_limit():
    endless = type("Endless", (Foreign,), {"step": lambda self, action: ((user("on"),), 0.0, False, False, {})})
    record = play(player(lambda: gymnasium.wrappers.TimeLimit(endless(), 2)))
    assert (record.stop, record.success, len(record.turns)) == (Stop.TURN_LIMIT, False, 2)


class Endless(Count):
    """Never comes back, and catches what would bring it back a few times."""

    catches = 0

    def reply(self, action):
        caught = 0
        while True:
            try:
                while True:
                    pass
            except Exception:
                caught += 1
                if caught > self.catches:
                    raise


@pytest.mark.parametrize("catches", [0, 2])
def test_an_endless_loop_on_the_event_loops_thread_is_interrupted(catches):
    lines = []
    make = type("Stubborn", (Endless,), {"catches": catches})
    stage = player(make, step_s=0.3, watchdog=Watchdog(lines.append))
    record = play(stage, watched=True)
    label = f"step of task train/1 seed {ticket().seed} member 0"
    assert (record.stop, record.error) == (Stop.ERROR, f"Overrun: {label} took longer than 0.3 s")
    assert [line.partition(": ")[2] for line in lines] == [label]


def test_an_interruption_never_arrives_after_the_call_it_was_for():
    watchdog = Watchdog(lambda line: None)
    outcomes = Counter()
    with watchdog.started(0.001):
        for n in range(60):
            try:
                watchdog.interruptible(0.0005, time.sleep, 0.0001 * (n % 12))
                outcomes["in time"] += 1
            except Exception as error:
                outcomes[type(error).__name__] += 1
            sum(range(2000))  # where a stray interruption would show
    assert set(outcomes) <= {"in time", "Overrun"}
    assert outcomes["in time"] > 0


def test_the_watchdog_names_each_late_wait_once():
    lines = []
    watchdog = Watchdog(lines.append)
    with watchdog.started(0.01), watchdog.waiting("the grader", 0.02), watchdog.waiting("dinner", 60.0):
        time.sleep(0.2)
    assert [line.partition(": ")[2] for line in lines] == ["the grader"]
