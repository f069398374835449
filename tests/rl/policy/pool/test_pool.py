"""Engines in processes of their own sample what one engine in this process does, whatever happens to them."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from rl.policy.engine import EngineDead
from rl.policy.hf import HFPolicy
from rl.policy.pool.messages import EngineOptions, Ready, Reply
from rl.policy.pool.pool import MAX_RESTARTS, EnginePool
from rl.policy.pool.routing import Router
from rl.policy.pretrained import load_pretrained
from rl.records import Completion, SamplingParams
from tests.support.forked_host import ForkedHost
from tests.support.runs import small_model

CONTEXT, SLOTS = 128, 16
GROUPS, SIZE = 4, 3
WAIT_S = 60.0  # after which a test fails that would hang


def open_pool(model: Any, count: int) -> EnginePool:
    return EnginePool(model, EngineOptions("hf", SLOTS, CONTEXT, "", "", "cpu"), count, host=ForkedHost())


@pytest.fixture(scope="module")
def model() -> Any:
    return load_pretrained(small_model())[0]


@pytest.fixture(scope="module")
def shared(model: Any) -> Iterator[tuple[EnginePool, HFPolicy]]:
    """A pool of two, and an engine in this process over the same model."""
    pool = open_pool(model, 2)
    yield pool, HFPolicy(model, slots=SLOTS, context=CONTEXT)
    pool.close()


@pytest.fixture
def both(shared: tuple[EnginePool, HFPolicy]) -> tuple[EnginePool, HFPolicy]:
    """The same, with both engines ready and no memory of earlier sessions."""
    pool, alone = shared
    change_weights(alone.model)
    pool.sync_weights()
    alone.sync_weights()
    run(pool._until_ready())
    pool._deaths, pool._router = [0, 0], Router(2)
    pool.metrics()
    return pool, alone


def change_weights(model: Any) -> None:
    with torch.no_grad():
        for index, weight in enumerate(model.parameters()):
            weight.add_(0.05 * torch.sin(torch.arange(weight.numel()) + index).view_as(weight))


def run(work: Any) -> Any:
    return asyncio.run(asyncio.wait_for(work, WAIT_S))


async def sample(policy: Any, group: int, member: int, tokens: int = 40) -> Completion:
    """A reply of many tokens, for no token ends it."""
    params = SamplingParams(tokens, seed=100 * group + member)
    return await policy.sample((3, 5 + group, 7), params, session=f"{group}/{member}")


async def replies(policy: Any, groups: range = range(GROUPS), tokens: int = 40) -> list[Completion]:
    """The replies of some groups, whose sessions are released."""
    sessions = [(group, member) for group in groups for member in range(SIZE)]
    try:
        return await asyncio.gather(*(sample(policy, *session, tokens) for session in sessions))
    finally:
        for group, member in sessions:
            policy.release(f"{group}/{member}")


def assert_alike(ours: list[Completion], theirs: list[Completion]) -> None:
    for one, other in zip(ours, theirs, strict=True):
        assert one.ids == other.ids and one.versions == other.versions and one.finish == other.finish
        assert one.logprobs == pytest.approx(other.logprobs, abs=2e-5)
        assert one.model_logprobs == pytest.approx(other.model_logprobs, abs=5e-6)


def forged(version: int) -> Completion:
    return Completion((1,), (0.0,), (0.0,), (version,), "stop")


async def settle(rounds: int = 10) -> None:
    """Let what has been asked be sent."""
    for _ in range(rounds):
        await asyncio.sleep(0)


def test_two_engines_sample_what_one_does_and_both_are_used(both: tuple[EnginePool, HFPolicy]) -> None:
    pool, alone = both
    assert_alike(run(replies(pool)), run(replies(alone)))
    assert pool.metrics() == {"engines/restarts": 0, "engines/repeats": 0, "engines/busiest": 1}
    assert pool.slots == 2 * SLOTS and pool.context == CONTEXT


class Slow(HFPolicy):
    """Takes some rounds of the event loop before each reply."""

    async def sample(self, *args: Any, **options: Any) -> Completion:
        for _ in range(400):
            await asyncio.sleep(0)
        return await super().sample(*args, **options)


class Pair:
    """A fast engine and a slow one in this process, among which the pool's router distributes groups."""

    def __init__(self, model: Any) -> None:
        self.engines = [each(model, slots=SLOTS, context=CONTEXT) for each in (HFPolicy, Slow)]
        self.router, self.num_replies = Router(2), [0, 0]

    async def sample(self, prompt: Any, params: SamplingParams, *, session: str) -> Completion:
        index = self.router.choose(session, (0, 1))
        reply = await self.engines[index].sample(prompt, params, session=session)
        self.num_replies[index] += 1
        return reply

    def release(self, session: str) -> None:
        if (index := self.router.release(session)) is not None:
            self.engines[index].release(session)


def test_a_slow_engine_beside_a_fast_one_samples_what_one_does_whatever_the_length(model: Any) -> None:
    """Groups are of short and of long replies by turns, and the next one begins when one has ended."""

    async def play(policy: Any) -> list[list[Completion]]:
        groups, waiting = {}, iter(range(12))

        async def one_after_the_other() -> None:
            for group in waiting:
                groups[group] = await replies(policy, range(group, group + 1), tokens=6 if group % 2 else 48)

        await asyncio.gather(*(one_after_the_other() for _ in range(4)))
        return [groups[group] for group in range(12)]

    pair, alone = Pair(model), HFPolicy(model, slots=SLOTS, context=CONTEXT)
    ours, theirs = run(play(pair)), run(play(alone))
    for group, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
        assert_alike(mine, other)
        assert {len(reply.ids) for reply in mine} == {6 if group % 2 else 48}
    assert sum(pair.num_replies) == 12 * SIZE and pair.num_replies[0] > pair.num_replies[1] > 0


def test_new_weights_are_loaded_before_the_next_request_and_old_files_go(both: tuple[EnginePool, HFPolicy]) -> None:
    pool, alone = both
    before = run(replies(pool))
    change_weights(alone.model)
    for policy in (pool, alone):
        policy.sync_weights()
        policy.version = 70
    after = run(replies(pool))
    assert_alike(after, run(replies(alone)))
    assert [one.ids for one in after] != [one.ids for one in before] and set(after[0].versions) == {70}
    assert len(list(pool._files.folder.iterdir())) == 1


def test_a_reply_goes_on_behind_the_tokens_that_it_has(both: tuple[EnginePool, HFPolicy]) -> None:
    pool, _ = both
    (whole, *_) = run(replies(pool, range(1)))
    half = Completion(whole.ids[:9], whole.logprobs[:9], whole.model_logprobs[:9], (3,) * 9, "abort")

    async def go_on() -> Completion:
        return await pool.sample((3, 5, 7), SamplingParams(40, seed=0), resume_from=half)

    again = run(go_on())
    assert again.ids == whole.ids and again.versions == (3,) * 9 + whole.versions[9:]


def test_what_an_engine_refuses_is_an_error_of_that_request_alone(both: tuple[EnginePool, HFPolicy]) -> None:
    pool, _ = both

    async def ask() -> list[Any]:
        prompts: list[tuple[int, ...]] = [(), (1,) * CONTEXT, (1, 2)]
        asked = [pool.sample(prompt, SamplingParams(2, seed=1), session=f"{i}/0") for i, prompt in enumerate(prompts)]
        return await asyncio.gather(*asked, return_exceptions=True)

    empty, long, right = run(ask())
    assert isinstance(empty, ValueError) and isinstance(long, ValueError) and "128" in str(long)
    assert len(right.ids) == 2 and pool.num_restarts == 0


def test_an_engine_that_stands_still_holds_up_nobody_and_is_replaced(both: tuple[EnginePool, HFPolicy]) -> None:
    """Stopped, it is slower than any other; groups of the other engine are answered meanwhile."""
    pool, alone = both
    restarts = pool.num_restarts

    async def play() -> list[Completion]:
        await replies(pool, range(2), 1)  # groups 0 and 1 are at engines 0 and 1 from now on
        stopped = pool._engines[0]
        os.kill(stopped.pid, signal.SIGSTOP)
        slow = asyncio.ensure_future(replies(pool, range(1)))
        fast = [await replies(pool, range(1, 2)) for _ in range(3)]
        assert not slow.done() and not stopped.end
        stopped._timeout_s = 0.5
        mine = await slow
        assert "said nothing for 0.5 s (TURNWISE_ENGINE_TIMEOUT_S) and was killed" in stopped.end
        return [*mine, *fast[-1]]

    assert_alike(run(play()), run(replies(alone, range(2))))
    assert pool.num_restarts == restarts + 1 and pool.metrics()["engines/repeats"] == SIZE


def test_a_kill_in_a_reply_and_in_the_start_of_the_next_one_and_answers_of_others(
    both: tuple[EnginePool, HFPolicy],
) -> None:
    pool, alone = both

    async def play() -> list[Completion]:
        await replies(pool, range(2), 1)
        dying = pool._engines[1]
        os.kill(dying.pid, signal.SIGSTOP)
        asked = asyncio.ensure_future(replies(pool, range(2)))
        await settle()
        assert len(dying._requests) == SIZE
        run_id, incarnation = dying.origin
        for origin in ((run_id, incarnation - 1), ("another run", incarnation)):
            dying._on_message(Reply(origin, next(iter(dying._requests)), forged(pool.version)))
            dying._on_message(Ready(origin, 0, 1, 1, ""))
        assert len(dying._requests) == SIZE and dying.ready and dying.ready.slots == SLOTS
        os.kill(dying.pid, signal.SIGKILL)
        while (starting := pool._engines[1]) is dying:
            await asyncio.sleep(0.01)
        mine = await asked
        change_weights(alone.model)
        pool.sync_weights()  # while the other one starts
        os.kill(starting.pid, signal.SIGKILL)
        while pool._engines[1] is starting or pool._engines[1].ready is None:
            await asyncio.sleep(0.02)
        assert pool._engines[1] is not starting and "SIGKILL" in starting.end
        assert pool._router.num_moves >= 1
        return mine

    before = run(replies(alone, range(2)))
    assert_alike(run(play()), before)
    alone.sync_weights()
    pool._router = Router(2)
    after = run(replies(pool, range(2)))
    assert_alike(after, run(replies(alone, range(2))))
    assert [one.ids for one in after] != [one.ids for one in before]
    assert pool._router.num_sessions == [0, 0]


@pytest.mark.slow
def test_a_kill_in_load_leaves_nobody_with_old_weights(both: tuple[EnginePool, HFPolicy]) -> None:
    pool, alone = both

    async def play() -> list[Completion]:
        for engine in pool._engines:
            os.kill(engine.pid, signal.SIGSTOP)
        change_weights(alone.model)
        pool.sync_weights()
        alone.sync_weights()
        killed, other = pool._engines
        os.kill(killed.pid, signal.SIGKILL)
        os.kill(other.pid, signal.SIGCONT)
        mine = await replies(pool)  # half of them are asked of an engine that is not there
        while pool._engines[0].ready is None:
            await asyncio.sleep(0.02)
        pool._router = Router(2)
        assert_alike(await replies(pool), mine)
        assert pool._engines[0] is not killed and "SIGKILL" in killed.end
        return mine

    assert_alike(run(play()), run(replies(alone)))


def test_a_cancelled_request_is_forgotten_and_sessions_stick_to_their_engine(both: tuple[EnginePool, HFPolicy]) -> None:
    pool, _ = both

    def places() -> list[list[str]]:
        return [sorted(request.message.session for request in e._requests.values()) for e in pool._engines]

    async def play() -> None:
        task = asyncio.ensure_future(sample(pool, 0, 0, 100))
        await settle()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        pool.release("0/0")
        assert not any(engine._requests for engine in pool._engines)
        tasks = [asyncio.ensure_future(sample(pool, group, member)) for group in range(2) for member in range(SIZE)]
        await settle()
        assert places() == [["0/0", "0/1", "0/2"], ["1/0", "1/1", "1/2"]]
        await asyncio.gather(*tasks)
        for member in range(SIZE):
            pool.release(f"1/{member}")
        tasks = [asyncio.ensure_future(sample(pool, 0, SIZE))]
        await settle()
        assert places() == [["0/3"], []]  # although the other one has nothing to do
        await asyncio.gather(*tasks)

    run(play())


def test_a_reply_of_other_weights_counts_as_a_death_and_an_engine_that_only_dies_ends_the_run(
    both: tuple[EnginePool, HFPolicy],
) -> None:
    """The last test of the module: the pool has failed, and leaves nothing behind."""
    pool, _ = both

    async def play() -> None:
        first = pool._engines[0]
        os.kill(first.pid, signal.SIGSTOP)
        asked = asyncio.ensure_future(replies(pool, range(1)))
        await settle()
        first._on_message(Reply(first.origin, next(iter(first._requests)), forged(pool.version - 1)))
        assert f"sampled with version {pool.version - 1}" in first.end
        assert len(await asked) == SIZE  # of the other engine
        assert pool._router.num_moves == 1
        dead = {first.pid}
        while pool.failure is None:
            if pool.pids[0] not in dead:
                dead.add(pool.pids[0])
                os.kill(pool.pids[0], signal.SIGKILL)
            await asyncio.sleep(0.01)
        assert len(dead) == 1 + MAX_RESTARTS
        with pytest.raises(EngineDead, match=r"engine 1 .*SIGKILL.*3 restarts in a row gave no reply"):
            await sample(pool, 0, 0)
        pool.on_failure = lambda: None
        pool.sync_weights()
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(sample(pool, 0, 0), 0.05)

    run(play())
    folder, pids = pool._files.folder, pool.pids
    pool.close()
    assert not folder.exists() and not any(map(is_alive, pids))


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
