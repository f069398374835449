"""vLLM behind the contract of the hf engine: the same tokens for the same seeds, whoever else is sampled."""

import asyncio
import time
from functools import cache

import numpy as np
import pytest

from rl.policy.hf import HFPolicy
from rl.records import Completion
from tests.support.models import shaken, teacher_forced
from tests.support.sampling import PROMPT, STOP, assert_same, dialogue, drawn, params, prompt_of, sampled
from tests.support.vllm import assert_alike, needs_vllm, started, surroundings, tall

pytestmark = needs_vllm
BLOCK = 32  # tokens of a cache block
LONG = tuple(range(4, 39)) * 2


@cache
def net():
    return tall()


@pytest.fixture(scope="module")
def around():
    return []


@pytest.fixture(scope="module")
def policy(around):
    around.append(surroundings())
    with started(net(), slots=8) as policy:
        around.append(surroundings())
        yield policy
        assert policy.engine.asked == {}  # nothing that any test asked for is left in the engine


def hf(*asked, **named):
    return sampled(HFPolicy(net()), *asked, **named)


def test_the_start_leaves_luck_threads_and_variables_as_they_were(policy, around):
    before, after = around
    assert before == after


@pytest.mark.parametrize(
    "how",
    [{"temperature": 0.0}, {}, {"temperature": 0.6}, {"top_k": 3}, {"top_p": 0.7, "temperature": 1.3}],
    ids=str,
)
def test_tokens_and_log_probabilities_are_those_of_the_hf_engine(policy, how):
    asked = [(prompt_of(n), params(n, 20, **how)) for n in range(12)]  # more than there are slots
    found = sampled(policy, *asked)
    assert_alike(found, hf(*asked))
    for (prompt, one), reply in zip(asked, found, strict=True):
        np.testing.assert_allclose(reply.model_logprobs, teacher_forced(net(), prompt, reply.ids), atol=1e-4)
        assert (reply.logprobs is reply.model_logprobs) == (one.temperature == 1 and not how)


def test_a_reply_is_the_same_alone_and_among_others(policy):
    alone = [sampled(policy, (prompt_of(n), params(n, 24)))[0] for n in range(4)]
    together = sampled(policy, *((prompt_of(n), params(n, 24)) for n in range(30)))
    assert_alike(together[:4], alone)


@pytest.mark.parametrize("seed", [-1, 2**64 + 5])
def test_any_integer_is_a_seed(policy, seed):
    one, two = sampled(policy, (PROMPT, params(seed)), (PROMPT, params(seed % 2**64)))
    assert_same([one], [two])


def test_a_stop_token_ends_the_reply_and_belongs_to_it(policy):
    replies = sampled(policy, *((PROMPT, params(seed, 60)) for seed in range(40)))
    for reply in replies:
        assert STOP not in reply.ids[:-1]
        assert (reply.ids[-1] == STOP) == (reply.finish == "stop")
    assert {reply.finish for reply in replies} == {"stop", "length"}


@pytest.mark.parametrize("room", [1, 2, 5])
def test_the_context_is_used_to_its_last_token(policy, room):
    prompt = (PROMPT * 26)[: policy.context - room]
    (reply,) = sampled(policy, (prompt, params(max_tokens=50, stop=())))
    assert (len(reply.ids), reply.finish) == (room, "length")
    np.testing.assert_allclose(reply.logprobs, teacher_forced(net(), prompt, reply.ids), atol=1e-4)


def test_what_needs_no_computing_costs_no_step(policy):
    before = policy.stats["steps"]
    assert sampled(policy, (PROMPT, params(max_tokens=0))) == [Completion((), (), (), (), "length")]
    with pytest.raises(ValueError, match="128 tokens"):
        sampled(policy, ((4,) * 128, params()))
    assert policy.stats["steps"] == before


def test_dialogues_are_those_of_the_hf_engine(policy):
    async def play(engine):
        return await asyncio.gather(*(dialogue(engine, name, member) for name in range(6) for member in range(3)))

    mine, others = asyncio.run(play(policy)), asyncio.run(play(HFPolicy(net())))
    assert_alike([reply for told in mine for reply in told], [reply for told in others for reply in told])


def test_a_later_turn_and_a_group_mate_compute_only_what_is_new(policy):
    async def play():
        cached = [policy.engine.cached]
        reply = await policy.sample(LONG, params(1, stop=()), session="a")
        cached.append(policy.engine.cached)
        await policy.sample((*LONG, *reply.ids, 8, 7), params(2, stop=()), session="a")
        cached.append(policy.engine.cached)
        await policy.sample(LONG, params(3, stop=()), session="mate")
        cached.append(policy.engine.cached)
        return np.diff(cached).tolist(), len(reply.ids)

    policy.refresh()
    (first, second, mate), length = asyncio.run(play())
    assert first == 0
    assert second == (len(LONG) + length) // BLOCK * BLOCK
    assert mate == len(LONG) // BLOCK * BLOCK


def test_a_cancelled_request_leaves_the_engine_and_the_others_alone(policy):
    async def play():
        asked = [
            asyncio.create_task(policy.sample(prompt_of(n), params(n, 20, stop=()), session=f"{n}")) for n in range(10)
        ]
        await drawn(policy, "1", 3)
        asked[1].cancel()  # live
        asked[9].cancel()  # waiting
        return await asyncio.gather(*asked, return_exceptions=True)

    replies = asyncio.run(play())
    assert [n for n, reply in enumerate(replies) if isinstance(reply, asyncio.CancelledError)] == [1, 9]
    assert policy.engine.asked == {}
    kept = [n for n in range(10) if n not in (1, 9)]
    assert_alike([replies[n] for n in kept], hf(*((prompt_of(n), params(n, 20, stop=())) for n in kept)))


def test_what_a_cancelled_request_had_drawn_is_gone_on_with(policy):
    how = params(9, 16, stop=(), temperature=0.8)
    (whole,) = sampled(policy, (PROMPT, how))

    async def play():
        asked = asyncio.create_task(policy.sample(PROMPT, how, session="a"))
        await drawn(policy, "a", 6)
        received = policy.partial("a")
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
        return received, await policy.sample(PROMPT, how, session="a", received=received)

    received, again = asyncio.run(play())
    assert received.finish == "abort"
    assert 6 <= len(received.ids) < 16
    assert again.logprobs[: len(received.ids)] == received.logprobs
    assert_same([again], [whole])


def test_a_late_reply_ends_with_what_it_has(policy, monkeypatch):
    compute = policy.engine.step

    def slow():
        time.sleep(0.05)
        return compute()

    monkeypatch.setattr(policy.engine, "step", slow)
    late, fine = sampled(policy, (PROMPT, params(1, 40, stop=(), deadline_s=0.3)), (PROMPT, params(2, 8, stop=())))
    assert late.finish == "deadline"
    assert 0 < len(late.ids) < 40
    assert late.ids == hf((PROMPT, params(1, len(late.ids), stop=())))[0].ids
    assert (fine.finish, len(fine.ids)) == ("length", 8)


def test_new_weights_take_effect_in_mid_reply_and_every_token_says_whose_it_is(policy):
    changed = tall()
    shaken(changed, 1, 0.05)
    version = policy.version

    async def play():
        asked = [asyncio.create_task(policy.sample(PROMPT, params(n, 24, stop=()), session=f"{n}")) for n in range(3)]
        await drawn(policy, "0", 8)
        policy.model.load_state_dict(changed.state_dict())
        policy.refresh()
        return await asyncio.gather(*asked)

    try:
        for reply in asyncio.run(play()):
            swap = reply.versions.index(version + 1)
            assert reply.versions == (version,) * swap + (version + 1,) * (24 - swap)
            assert 8 <= swap < 24
            old, new = (teacher_forced(one, PROMPT, reply.ids) for one in (tall(), changed))
            np.testing.assert_allclose(reply.logprobs[:swap], old[:swap], atol=1e-4)
            np.testing.assert_allclose(reply.logprobs[swap:], new[swap:], atol=1e-4)
    finally:
        policy.model.load_state_dict(tall().state_dict())
        policy.refresh()


def test_memory_is_given_back_while_the_trainer_works_and_taken_again_weights_first(policy, monkeypatch):
    """The order of calls alone: no CPU build of vLLM sleeps."""
    told, engine = [], policy.engine
    worker = engine._engine.model_executor.driver_worker.worker
    reload = worker.reload_weights

    class Sleeper:
        def __getattr__(self, name):
            return getattr(inner, name)

        def sleep(self, level):
            told.append(f"sleep {level}, holding {len(engine.asked)}")

        def wake_up(self, tags):
            told.extend(tags)

    inner = engine._engine
    how = params(5, 16, stop=())

    async def play():
        asked = asyncio.create_task(policy.sample(PROMPT, how, session="a"))
        await drawn(policy, "a", 4)
        policy.rest()
        policy.refresh()
        return await asked

    (whole,) = sampled(policy, (PROMPT, how))
    assert asyncio.run(play()).ids == whole.ids
    assert told == []
    monkeypatch.setattr(engine, "sleeps", True)
    monkeypatch.setattr(engine, "_engine", Sleeper())
    monkeypatch.setattr(worker, "reload_weights", lambda **given: (told.append("reload"), reload(**given)))
    assert asyncio.run(play()).ids == whole.ids
    assert told == ["sleep 2, holding 0", "weights", "reload", "kv_cache"]


def test_a_second_engine_in_the_process_is_refused(policy):
    with pytest.raises(ValueError, match="runs in this process already"), started(tall()):
        pass
    assert len(sampled(policy, (PROMPT, params(stop=())))[0].ids) == 12  # the first one goes on
