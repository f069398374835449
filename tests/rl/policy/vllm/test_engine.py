"""vLLM gives the same tokens for the same seeds as the hf engine, whatever else is sampled."""

import asyncio
import time
from functools import cache

import numpy as np
import pytest

from rl.policy.hf import HFPolicy
from rl.records import Completion
from tests.support.models import perturb_weights, teacher_forced_logprobs
from tests.support.sampling import (
    PROMPT,
    STOP,
    assert_same_replies,
    make_prompt,
    params,
    play_dialogue,
    sample_all,
    wait_for_tokens,
)
from tests.support.vllm import assert_replies_match, needs_vllm, open_vllm, process_state, vllm_model

pytestmark = needs_vllm
BLOCK = 32  # tokens of a cache block
LONG = tuple(range(4, 39)) * 2


@cache
def net():
    return vllm_model()


@pytest.fixture(scope="module")
def process_states():
    return []


@pytest.fixture(scope="module")
def policy(process_states):
    process_states.append(process_state())
    with open_vllm(net(), slots=8) as policy:
        process_states.append(process_state())
        yield policy
        assert policy.engine.requests == {}  # nothing that any test asked for is left in the engine


def hf(*requests, **options):
    return sample_all(HFPolicy(net()), *requests, **options)


def test_the_start_leaves_luck_threads_and_variables_as_they_were(policy, process_states):
    before, after = process_states
    assert before == after


@pytest.mark.parametrize(
    "changes",
    [{"temperature": 0.0}, {}, {"temperature": 0.6}, {"top_k": 3}, {"top_p": 0.7, "temperature": 1.3}],
    ids=str,
)
def test_tokens_and_log_probabilities_are_those_of_the_hf_engine(policy, changes):
    requests = [(make_prompt(n), params(n, 20, **changes)) for n in range(12)]  # more than there are slots
    replies = sample_all(policy, *requests)
    assert_replies_match(replies, hf(*requests))
    for (prompt, one), reply in zip(requests, replies, strict=True):
        np.testing.assert_allclose(reply.model_logprobs, teacher_forced_logprobs(net(), prompt, reply.ids), atol=1e-4)
        assert (reply.logprobs is reply.model_logprobs) == (one.temperature == 1 and not changes)


def test_a_reply_is_the_same_alone_and_among_others(policy):
    alone = [sample_all(policy, (make_prompt(n), params(n, 24)))[0] for n in range(4)]
    together = sample_all(policy, *((make_prompt(n), params(n, 24)) for n in range(30)))
    assert_replies_match(together[:4], alone)


@pytest.mark.parametrize("seed", [-1, 2**64 + 5])
def test_any_integer_is_a_seed(policy, seed):
    one, two = sample_all(policy, (PROMPT, params(seed)), (PROMPT, params(seed % 2**64)))
    assert_same_replies([one], [two])


def test_a_stop_token_ends_the_reply_and_belongs_to_it(policy):
    replies = sample_all(policy, *((PROMPT, params(seed, 60)) for seed in range(40)))
    for reply in replies:
        assert STOP not in reply.ids[:-1]
        assert (reply.ids[-1] == STOP) == (reply.finish == "stop")
    assert {reply.finish for reply in replies} == {"stop", "length"}


@pytest.mark.parametrize("room", [1, 2, 5])
def test_the_context_is_used_to_its_last_token(policy, room):
    prompt = (PROMPT * 26)[: policy.context - room]
    (reply,) = sample_all(policy, (prompt, params(max_tokens=50, stop=())))
    assert (len(reply.ids), reply.finish) == (room, "length")
    np.testing.assert_allclose(reply.logprobs, teacher_forced_logprobs(net(), prompt, reply.ids), atol=1e-4)


def test_what_needs_no_computing_costs_no_step(policy):
    before = policy.stats["steps"]
    assert sample_all(policy, (PROMPT, params(max_tokens=0))) == [Completion((), (), (), (), "length")]
    with pytest.raises(ValueError, match="128 tokens"):
        sample_all(policy, ((4,) * 128, params()))
    assert policy.stats["steps"] == before


def test_dialogues_are_those_of_the_hf_engine(policy):
    async def play(engine):
        return await asyncio.gather(*(play_dialogue(engine, name, member) for name in range(6) for member in range(3)))

    mine, others = asyncio.run(play(policy)), asyncio.run(play(HFPolicy(net())))
    assert_replies_match(
        [reply for dialogue in mine for reply in dialogue], [reply for dialogue in others for reply in dialogue]
    )


def test_a_later_turn_and_a_group_mate_compute_only_what_is_new(policy):
    async def play():
        counts = [policy.engine.num_cached_tokens]
        reply = await policy.sample(LONG, params(1, stop=()), session="a")
        counts.append(policy.engine.num_cached_tokens)
        await policy.sample((*LONG, *reply.ids, 8, 7), params(2, stop=()), session="a")
        counts.append(policy.engine.num_cached_tokens)
        await policy.sample(LONG, params(3, stop=()), session="mate")
        counts.append(policy.engine.num_cached_tokens)
        return np.diff(counts).tolist(), len(reply.ids)

    policy.sync_weights()
    (first, second, mate), length = asyncio.run(play())
    assert first == 0
    assert second == (len(LONG) + length) // BLOCK * BLOCK
    assert mate == len(LONG) // BLOCK * BLOCK


def test_a_cancelled_request_leaves_the_engine_and_the_others_alone(policy):
    async def play():
        tasks = [
            asyncio.create_task(policy.sample(make_prompt(n), params(n, 20, stop=()), session=f"{n}"))
            for n in range(10)
        ]
        await wait_for_tokens(policy, "1", 3)
        tasks[1].cancel()  # live
        tasks[9].cancel()  # waiting
        return await asyncio.gather(*tasks, return_exceptions=True)

    replies = asyncio.run(play())
    assert [n for n, reply in enumerate(replies) if isinstance(reply, asyncio.CancelledError)] == [1, 9]
    assert policy.engine.requests == {}
    others = [n for n in range(10) if n not in (1, 9)]
    assert_replies_match([replies[n] for n in others], hf(*((make_prompt(n), params(n, 20, stop=())) for n in others)))


def test_what_a_cancelled_request_had_drawn_is_gone_on_with(policy):
    how = params(9, 16, stop=(), temperature=0.8)
    (whole,) = sample_all(policy, (PROMPT, how))

    async def play():
        task = asyncio.create_task(policy.sample(PROMPT, how, session="a"))
        await wait_for_tokens(policy, "a", 6)
        partial = policy.partial("a")
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return partial, await policy.sample(PROMPT, how, session="a", resume_from=partial)

    partial, again = asyncio.run(play())
    assert partial.finish == "abort"
    assert 6 <= len(partial.ids) < 16
    assert again.logprobs[: len(partial.ids)] == partial.logprobs
    assert_same_replies([again], [whole])


def test_a_late_reply_ends_with_what_it_has(policy, monkeypatch):
    compute = policy.engine.step

    def slow():
        time.sleep(0.05)
        return compute()

    monkeypatch.setattr(policy.engine, "step", slow)
    late, fine = sample_all(policy, (PROMPT, params(1, 40, stop=(), deadline_s=0.3)), (PROMPT, params(2, 8, stop=())))
    assert late.finish == "deadline"
    assert 0 < len(late.ids) < 40
    assert late.ids == hf((PROMPT, params(1, len(late.ids), stop=())))[0].ids
    assert (fine.finish, len(fine.ids)) == ("length", 8)


def test_new_weights_take_effect_in_mid_reply_and_every_token_says_whose_it_is(policy):
    updated_model = vllm_model()
    perturb_weights(updated_model, 1, 0.05)
    version = policy.version

    async def play():
        tasks = [asyncio.create_task(policy.sample(PROMPT, params(n, 24, stop=()), session=f"{n}")) for n in range(3)]
        await wait_for_tokens(policy, "0", 8)
        policy.model.load_state_dict(updated_model.state_dict())
        policy.sync_weights()
        return await asyncio.gather(*tasks)

    try:
        for reply in asyncio.run(play()):
            swap = reply.versions.index(version + 1)
            assert reply.versions == (version,) * swap + (version + 1,) * (24 - swap)
            assert 8 <= swap < 24
            old, new = (teacher_forced_logprobs(one, PROMPT, reply.ids) for one in (vllm_model(), updated_model))
            np.testing.assert_allclose(reply.logprobs[:swap], old[:swap], atol=1e-4)
            np.testing.assert_allclose(reply.logprobs[swap:], new[swap:], atol=1e-4)
    finally:
        policy.model.load_state_dict(vllm_model().state_dict())
        policy.sync_weights()


def test_memory_is_given_back_while_the_trainer_works_and_taken_again_weights_first(policy, monkeypatch):
    """Checks the order of calls only: no CPU build of vLLM can sleep."""
    calls, engine = [], policy.engine
    worker = engine._engine.model_executor.driver_worker.worker
    reload = worker.reload_weights

    class Sleeper:
        def __getattr__(self, name):
            return getattr(inner, name)

        def sleep(self, level):
            calls.append(f"sleep {level}, holding {len(engine.requests)}")

        def wake_up(self, tags):
            calls.extend(tags)

    inner = engine._engine
    how = params(5, 16, stop=())

    async def play():
        task = asyncio.create_task(policy.sample(PROMPT, how, session="a"))
        await wait_for_tokens(policy, "a", 4)
        policy.pause()
        policy.sync_weights()
        return await task

    (whole,) = sample_all(policy, (PROMPT, how))
    assert asyncio.run(play()).ids == whole.ids
    assert calls == []
    monkeypatch.setattr(engine, "can_sleep", True)
    monkeypatch.setattr(engine, "_engine", Sleeper())
    monkeypatch.setattr(worker, "reload_weights", lambda **given: (calls.append("reload"), reload(**given)))
    assert asyncio.run(play()).ids == whole.ids
    assert calls == ["sleep 2, holding 0", "weights", "reload", "kv_cache"]


def test_a_second_engine_in_the_process_is_refused(policy):
    with pytest.raises(ValueError, match="runs in this process already"), open_vllm(vllm_model()):
        pass
    assert len(sample_all(policy, (PROMPT, params(stop=())))[0].ids) == 12  # the first one goes on
