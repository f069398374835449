"""The hf engine with less memory than its slots would need at full length."""

import asyncio

import numpy as np
import pytest
import torch

from rl.policy.hf import HFPolicy
from rl.policy.kv_cache import KVCache
from tests.support.sampling import (
    PROMPT,
    assert_same_replies,
    llama,
    make_prompt,
    params,
    play_at_random,
    play_dialogue_alone,
    sample_all,
)

CONTEXT = 128
TOKEN_BYTES = 2 * 2 * 2 * 8 * 4  # keys and values, layers, heads, size, bytes


def bounded(tokens, *, slots=64):
    """An engine with memory for so many tokens of all sequences."""
    return HFPolicy(llama(), slots=slots, context=CONTEXT, cache_gib=(tokens + 0.5) * TOKEN_BYTES / 2**30)


def watch(policy):
    """Record how many requests are active at each step, and that memory never holds more tokens than it may."""
    active, step = [], policy._step

    def watched():
        result = step()
        active.append(len(policy._active))
        _, _, rows, _, length, _ = policy.cache.kv.shape
        assert (rows, length) == (policy.cache.rows, policy.cache.length) and rows * length <= policy.cache.tokens
        return result

    policy._step = watched
    return active


def test_a_cache_without_room_for_one_sequence_is_refused():
    with pytest.raises(ValueError, match=r"one sequence of 128 tokens needs .* GiB are allowed: --max-tokens 100 fits"):
        bounded(100)


@pytest.mark.parametrize("tokens", [CONTEXT, 3 * CONTEXT + 7, 6 * CONTEXT])
def test_replies_are_those_of_an_engine_with_enough_memory(tokens):
    requests = [(make_prompt(n), params(n, 1 + 11 * n % 110, stop=())) for n in range(24)]
    policy = bounded(tokens)
    active = watch(policy)
    replies = sample_all(policy, *requests)
    assert_same_replies(replies, sample_all(HFPolicy(llama(), slots=64), *requests))
    assert max(active) > tokens // CONTEXT  # more than fit at full length


def test_those_with_the_fewest_tokens_wait_where_sequences_have_grown():
    requests = [(PROMPT, params(n, 100, stop=())) for n in range(8)]
    policy = bounded(2 * CONTEXT)
    active = watch(policy)
    replies = sample_all(policy, *requests)
    assert_same_replies(replies, sample_all(HFPolicy(llama(), slots=64), *requests))
    assert active[0] == 8 and 2 in active
    assert policy.stats["sampled"] == 800  # nothing was drawn twice


@pytest.mark.parametrize("schedule", range(30))
def test_no_schedule_changes_a_token(schedule):
    rng = np.random.default_rng(schedule)
    policy = bounded(int(rng.integers(CONTEXT, 4 * CONTEXT)), slots=int(rng.choice([3, 9, 64])))
    watch(policy)
    names = rng.permutation(12)[: rng.integers(2, 10)].tolist()

    for who, replies in asyncio.run(play_at_random(policy, rng, names, turns=8)).items():
        if not isinstance(replies, asyncio.CancelledError):
            alone = play_dialogue_alone(*who)
            assert_same_replies(replies[: len(alone)], alone)


def test_an_engine_that_is_interrupted_goes_on_to_the_bit():
    requests = [(make_prompt(n), params(n, 80 + 4 * n, stop=())) for n in range(9)]
    policy = bounded(2 * CONTEXT)

    async def interrupted():
        tasks = [asyncio.create_task(policy.sample(*request, session=f"{n}/0")) for n, request in enumerate(requests)]
        sessions = [f"{n}/0" for n in range(len(requests))]
        while not (all(map(policy.partial, sessions)) and max(len(policy.partial(one).ids) for one in sessions) > 45):
            await asyncio.sleep(0)
        assert 0 < len(policy._active) < len(sessions)  # some have had to wait
        partials = [policy.partial(session) for session in sessions]
        policy.sync_weights()  # as at the end of an update
        return partials, await asyncio.gather(*tasks)

    async def resumed(partials):
        fresh = bounded(2 * CONTEXT)
        fresh.version = 1
        return await asyncio.gather(
            *(
                fresh.sample(*request, session=f"{n}/0", resume_from=partial)
                for n, (request, partial) in enumerate(zip(requests, partials, strict=True))
            )
        )

    partials, replies = asyncio.run(interrupted())
    assert 0 < sum(len(partial.ids) for partial in partials) < sum(len(reply.ids) for reply in replies)
    for mine, other in zip(asyncio.run(resumed(partials)), replies, strict=True):
        assert (mine.ids, mine.logprobs) == (other.ids, other.logprobs)


@pytest.mark.parametrize("rows, length", [(2, 96), (6, 32), (3, 64)])
def test_memory_is_divided_anew_in_place(rows, length):
    cache = KVCache(
        layers=2,
        kv_heads=2,
        head_dim=3,
        slots=6,
        context=96,
        device=torch.device("cpu"),
        dtype=torch.float32,
        tokens=192,
    )
    cache.resize(4, 48)
    rng = np.random.default_rng(0)
    for slot in range(4):
        cache.write(slot, rng.integers(1, 9, size=30).tolist(), 0)
        cache.num_cached[slot] = 30
        cache.kv[:, :, slot, :, :30] = torch.randn(2, 2, 2, 30, 3)
    before, memory = cache.kv[:, :, :, :, :30].clone(), cache.kv.untyped_storage().data_ptr()
    cache.resize(rows, length)
    kept = min(rows, 4)
    assert cache.kv.shape == (2, 2, rows, 2, length, 3) and cache.kv.untyped_storage().data_ptr() == memory
    assert torch.equal(cache.kv[:, :, :kept, :, :30], before[:, :, :kept])
    assert cache.num_cached.tolist() == [30] * kept + [0] * (rows - kept)
