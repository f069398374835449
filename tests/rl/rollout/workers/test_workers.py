"""Environments in workers play as they do in this process, whatever happens to the workers."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import redirect_stderr
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from envs.types import Stop, text
from envs.watchdog import WATCHDOG
from rl.rollout.episode import play_episode
from rl.rollout.player import ScriptPlayer
from rl.rollout.timeouts import Hang
from rl.rollout.workers.pool import Workers
from tests.support.breakable import WAYS, BlockingBreakable, Breakable, breaking_policy
from tests.support.episodes import (
    BlockingCount,
    Count,
    FixedPolicy,
    make_runner,
    make_ticket,
    play_group,
    play_member,
    without_times,
)
from tests.support.forked_host import ForkedHost
from tests.support.mortal import BlockingMortal, Deadly, Fickle, Mortal, MortalGame, Stuck, Talker
from tests.support.paths import ROOT

pytestmark = pytest.mark.filterwarnings("error")
SEATS = ("player_0", "player_1")


@pytest.fixture(scope="module")
def shared_workers() -> Iterator[Workers]:
    """Two workers for all tests that leave them alive."""
    workers = Workers(2)
    yield workers
    workers.close()


@pytest.fixture
def workers() -> Iterator[Workers]:
    """Two workers for one test, forked from where everything is imported."""
    workers = Workers(2, ForkedHost())
    yield workers
    workers.close()


def pids(workers: Workers) -> list[int]:
    return [worker.process.pid for worker in workers.workers if worker.process is not None]


def summary(group: Any) -> tuple[list[Any], list[Any]]:
    """What a group says, without times."""
    trajectories = [without_times(trajectory) for trajectory in group.trajectories]
    return trajectories, [(one.stop, one.error, one.redraw, len(one.turns)) for one in group.errored]


def play_game(make_env: Any, policy: FixedPolicy, **options: Any) -> Any:
    """A group of two episodes of a game of two seats."""
    runner = make_runner(make_env, policy, seats=SEATS, **options)
    groups = asyncio.run(asyncio.wait_for(independent_groups(runner), 60))
    runner.close()
    return [summary(group) for group in groups], runner


async def independent_groups(runner: Any) -> Any:
    from rl.methods.parts.strategy import independent

    return await independent(runner, make_ticket(size=2))


CASES = [
    (env, way)
    for way in WAYS
    for env in (Breakable, BlockingBreakable)
    if (way, env) not in (("hang", Breakable), ("loop", BlockingBreakable), ("kill", Breakable))
]


@pytest.mark.parametrize(("env", "way"), CASES, ids=[f"{way}-{env.__name__}" for env, way in CASES])
def test_who_breaks_an_environment_breaks_it_alike_in_a_worker(
    env: type[Count], way: str, shared_workers: Workers
) -> None:
    """`sys.exit`, exceptions of any kind, results that are none, calls that never end."""
    groups = []
    for make_env in (env, shared_workers.far(env)):
        step_s = 0.3 if way in ("hang", "loop") else 20.0
        runner = make_runner(make_env, breaking_policy(way), reply_tokens=20, step_s=step_s)
        with WATCHDOG.running(interval_s=0.02):
            groups.append(summary(play_group(runner, make_ticket(size=1))))
        Breakable.released.set()
        runner.close()
        Breakable.released.clear()
    assert groups[0] == groups[1]
    assert len(groups[0][0]) == 1, groups[0]
    assert not any(worker.num_envs for worker in shared_workers.workers)


@pytest.mark.parametrize(("env", "where"), [(Mortal, "reply"), (BlockingMortal, "reply"), (Mortal, "reset")])
def test_the_death_of_a_worker_changes_no_episode(
    env: type[Mortal], where: str, tmp_path: Path, workers: Workers
) -> None:
    """SIGKILL in a step and in a reset: no errored attempt, and every reply is sampled once."""
    groups, policies = [], []
    for make_env in (env, workers.far(partial(env, where, str(tmp_path / "mark")))):
        policies.append(FixedPolicy())
        runner = make_runner(make_env, policies[-1], step_s=20.0)
        groups.append(summary(play_group(runner, make_ticket(size=4))))
        runner.close()
    assert (tmp_path / "mark").exists()
    assert groups[0] == groups[1] and not groups[1][1]
    assert Counter(session for session, *_ in policies[1].requests) == {f"0/{member}": 5 for member in range(4)}


def test_the_death_of_a_worker_changes_no_game(tmp_path: Path, workers: Workers) -> None:
    local, _ = play_game(MortalGame, FixedPolicy())
    policy = FixedPolicy()
    far, _ = play_game(workers.far(partial(MortalGame, str(tmp_path / "mark"))), policy)
    assert (tmp_path / "mark").exists() and local == far
    assert Counter(session for session, *_ in policy.requests) == {
        f"0/{member}/{seat}": 2 for member in range(2) for seat in SEATS
    }


def test_workers_may_be_killed_at_any_moment(workers: Workers) -> None:
    class Waits(FixedPolicy):
        """Kills a worker now and then."""

        async def sample(self, *args: Any, **kwargs: Any) -> Any:
            if len(self.requests) in (30, 70, 100, 150):
                os.kill(pids(workers)[len(self.requests) // 50 % 2], signal.SIGKILL)
            return await super().sample(*args, **kwargs)

    local = play_group(make_runner(Count), make_ticket(size=64))
    policy = Waits()
    runner = make_runner(workers.far(Count), policy, step_s=20.0)
    far = play_group(runner, make_ticket(size=64))
    assert summary(local)[0] == summary(far)[0]
    # One that met both kills of a worker is played anew, with the draws that it had.
    assert all("(SIGKILL), for the second time" in one.error for one in far.errored)
    assert len(policy.requests) >= 64 * 3
    assert sum(worker.ensure_process() for worker in workers.workers) > 2  # some died
    runner.close()


def test_a_reply_that_kills_every_worker_is_the_policy_s_fault(workers: Workers) -> None:
    runner = make_runner(workers.far(Deadly), breaking_policy("kill"), reply_tokens=20, step_s=20.0)
    group = play_group(runner, make_ticket())
    (trajectory,) = group.trajectories
    assert trajectory.stop == Stop.POLICY_FAULT and len(trajectory.turns) == 3 and not group.errored
    assert "WorkerDied" in trajectory.error and "exit code 7, for the second time" in trajectory.error
    runner.close()


def test_workers_that_only_die_end_the_run_with_one_line(workers: Workers) -> None:
    runner = make_runner(workers.far(partial(Deadly, everywhere=True)), step_s=20.0)
    output = StringIO()
    line = "ended with exit code 7: no memory left; it was started 3 times more without a step since"
    with pytest.raises(Hang, match=line), redirect_stderr(output):
        play_group(runner, make_ticket())
    assert output.getvalue().splitlines() == ["worker 1: no memory left"] * 4
    runner.close()


def test_an_environment_that_does_not_repeat_itself_is_played_with_new_replies(
    tmp_path: Path, workers: Workers
) -> None:
    runner = make_runner(workers.far(partial(Fickle, "reply", str(tmp_path / "mark"))), step_s=20.0)
    group = play_group(runner, make_ticket())
    assert len(group.trajectories) == 1 and group.errored
    assert "answers otherwise than before its worker died" in group.errored[0].error
    runner.close()


@pytest.mark.slow
def test_a_call_that_cannot_be_interrupted_costs_a_worker_and_is_a_timeout(workers: Workers) -> None:
    runner = make_runner(workers.far(partial(Stuck, holds_lock=True)), step_s=0.5, retries=0)
    output = StringIO()
    with redirect_stderr(output):
        group = play_group(runner, make_ticket())
    assert "Stuck: step of task train/1" in group.errored[0].error
    assert "took longer than 0.5 s (--step-seconds)" in group.errored[0].error
    assert "cannot be interrupted" in output.getvalue()
    assert play_member(make_runner(workers.far(Count))).stop == Stop.TERMINATED  # the other one, or its successor
    runner.close()


def test_what_environments_print_comes_in_whole_lines_behind_the_worker_s_name() -> None:
    workers, output = Workers(2), StringIO()
    with redirect_stderr(output):
        runner = make_runner(workers.far(Talker), max_tokens=10**8)
        group = play_group(runner, make_ticket(size=4))
        runner.close()
        workers.close()
    assert [len(text(trajectory.turns[1].observation[0])) for trajectory in group.trajectories] == [300_000] * 4
    lines = output.getvalue().splitlines()
    assert Counter(line.partition(": ")[2] for line in lines) == {
        "a line of task 1": 12,
        "a warning of task 1": 12,
    }
    assert {line.partition(": ")[0] for line in lines} == {"worker 1", "worker 2"}


def test_a_snapshot_that_cannot_be_sent_is_none(shared_workers: Workers) -> None:
    snapshots: list[Any] = []
    runner = make_runner(shared_workers.far(Mortal))
    asyncio.run(play_episode(runner, make_ticket(), 0, on_turn=snapshots.append))
    runner.close()
    assert snapshots == [None] * 4


def test_a_script_plays_a_seat_with_the_whole_environment(shared_workers: Workers) -> None:
    from envs.multi.opponents import make_opponent

    def play(make_env: Any, spec: str) -> Any:
        player = ScriptPlayer(spec, make_opponent(spec, MortalGame), is_opponent=True)
        return play_game(make_env, FixedPolicy(), lineup=lambda ticket: {"player_1": player})[0]

    for spec in ("oracle", "random"):
        assert play(MortalGame, spec) == play(shared_workers.far(MortalGame), spec)


def test_the_clock_of_an_environment_stands_still_with_that_of_the_run(shared_workers: Workers) -> None:
    """An update that keeps the event loop busy does not count towards `max_seconds`."""
    runner = make_runner(shared_workers.far(partial(Count, max_seconds=0.4)))

    async def play() -> Any:
        env, ticket = runner.take(), make_ticket()
        options = {"index": 1, "split": "train"}
        await runner.call(env, ticket, "reset", env.reset, seed=1, options=options)
        with runner.clock.paused():
            await asyncio.sleep(0.6)
        step = await runner.call(env, ticket, "step", env.step, {"role": "assistant", "content": "a"})
        await asyncio.sleep(0.5)
        late = await runner.call(env, ticket, "step", env.step, {"role": "assistant", "content": "a"})
        runner.put(env)
        return step[3], late[3]

    assert asyncio.run(play()) == (False, True)
    runner.close()


@pytest.mark.parametrize("holds_lock", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_workers_end_with_their_run_whatever_they_do(holds_lock: bool) -> None:
    """SIGKILL of the run while a step sleeps, or holds the interpreter's lock so that no other thread can run."""
    program = f"""
import asyncio, functools
from envs.watchdog import WATCHDOG
from rl.rollout.workers.pool import Workers
from tests.support.episodes import make_runner, make_ticket, play_group
from tests.support.mortal import Stuck
workers = Workers(2)
runner = make_runner(workers.far(functools.partial(Stuck, holds_lock={holds_lock})), step_s=2.0)
async def report():
    while not all(worker.process for worker in workers.workers):
        await asyncio.sleep(0.01)
    await asyncio.sleep(1.5)
    print(*(worker.process.pid for worker in workers.workers), flush=True)
async def play():
    from rl.methods.parts.strategy import independent
    await asyncio.gather(report(), independent(runner, make_ticket(size=2)))
asyncio.run(play())
"""
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as run:
        assert run.stdout is not None
        workers = [int(word) for word in run.stdout.readline().split()]
        assert len(workers) == 2 and all(map(is_alive, workers))
        run.kill()
    deadline = time.monotonic() + 8.0
    while any(map(is_alive, workers)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(is_alive, workers))


def is_alive(pid: int) -> bool:
    """Whether a process is running, and not only waiting for its parent to take note of its end."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_without_workers_there_is_nothing() -> None:
    assert Workers.open(0) is None


def test_what_cannot_be_sent_is_refused(shared_workers: Workers) -> None:
    with pytest.raises(ValueError, match="--workers: what makes the environment cannot be sent"):
        shared_workers.far(lambda: BlockingCount())
