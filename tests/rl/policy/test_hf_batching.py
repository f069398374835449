"""The hf engine's replies do not depend on the other requests, and it computes nothing twice."""

import asyncio

import numpy as np
import pytest

from rl.policy.hf import HFPolicy
from tests.support.models import OTHER_FAMILIES, VOCAB, model
from tests.support.sampling import (
    PROMPT,
    assert_same_replies,
    llama,
    make_prompt,
    params,
    play_at_random,
    play_dialogue,
    play_dialogue_alone,
    sample_all,
    wait_for_tokens,
)

# Who else is there


@pytest.mark.parametrize("slots", [1, 3, 64])
def test_tokens_do_not_depend_on_how_many_are_sampled_at_once(slots):
    async def play(policy):
        return await asyncio.gather(*(play_dialogue(policy, name) for name in range(8)))

    for name, replies in enumerate(asyncio.run(play(HFPolicy(llama(), slots=slots)))):
        assert_same_replies(replies, play_dialogue_alone(name))


@pytest.mark.parametrize("kind", OTHER_FAMILIES)
def test_nor_do_they_through_a_models_own_forward(kind):
    net = model(kind)

    async def play(policy, names):
        return await asyncio.gather(*(play_dialogue(policy, name, pause=lambda name=name: name % 3) for name in names))

    together = asyncio.run(play(HFPolicy(net, slots=4), range(6)))
    for name in range(6):
        assert_same_replies(together[name], asyncio.run(play(HFPolicy(net, slots=1), [name]))[0])


@pytest.mark.parametrize("schedule", range(40))
def test_no_schedule_changes_a_token(schedule, monkeypatch):
    """Random arrival of groups, pauses that park sessions, too few slots, requests that are cancelled or resumed."""
    if schedule % 2:
        monkeypatch.setattr("rl.policy.kv_cache.MIN_SHARED", 1)  # even the least that two have in common is copied
    rng = np.random.default_rng(schedule)
    policy = HFPolicy(llama(), slots=int(rng.choice([1, 2, 3, 5, 9, 64])))
    names = rng.permutation(12)[: rng.integers(2, 10)].tolist()

    for who, result in asyncio.run(play_at_random(policy, rng, names)).items():
        if not isinstance(result, asyncio.CancelledError):
            assert_same_replies(result, play_dialogue_alone(*who))


# What is computed


def test_a_dialogue_feeds_each_of_its_tokens_once():
    policy = HFPolicy(llama())
    replies = asyncio.run(play_dialogue(policy, 5))
    rng = np.random.default_rng(5)
    total = len(make_prompt(5))
    for reply in replies:
        rng.integers(1, 9)
        total += len(reply.ids)
        if reply is not replies[-1]:
            total += len(rng.integers(4, VOCAB, size=rng.integers(1, 5)))
    assert policy.stats["fed"] == total - 1  # the last token leads nowhere
    assert policy.stats["sampled"] == sum(len(reply.ids) for reply in replies)


def test_members_of_a_group_share_one_prefill():
    policy = HFPolicy(llama())
    replies = sample_all(policy, *((PROMPT, params(seed, 6, stop=())) for seed in range(10)))
    assert policy.stats["fed"] == len(PROMPT) + sum(len(reply.ids) - 1 for reply in replies)


@pytest.mark.parametrize("going_on", [False, True])
def test_a_fork_takes_over_what_its_parent_has_computed(going_on):
    """The parent session is parked between two turns, or is still sampled."""
    prompt = (*PROMPT * 4, 7)

    async def play():
        policy = HFPolicy(llama(), slots=4)
        parent = asyncio.create_task(
            policy.sample(prompt, params(stop=(), max_tokens=30 if going_on else 3), session="a")
        )
        await (wait_for_tokens(policy, "a", 2) if going_on else parent)
        at, before = len(parent.result().ids) if parent.done() else 0, policy.stats["fed"]
        assert bool(at) is not going_on
        fork = await policy.sample((*prompt, 8), params(1, stop=(), max_tokens=1), session="b")
        alone = await HFPolicy(llama()).sample((*prompt, 8), params(1, stop=(), max_tokens=1))
        assert_same_replies([fork], [alone])
        fed = policy.stats["fed"] - before
        await parent
        return fed

    assert asyncio.run(play()) <= (8 if going_on else 1)  # a few of the parent's own, and none of the 21 shared ones


def test_parked_sessions_are_kept_while_there_are_slots_for_them():
    policy = HFPolicy(llama(), slots=64)

    async def play():
        prompts = {f"{n}": (n + 4, *make_prompt(n)) for n in range(30)}
        for turn in range(3):  # one at a time, so that no more than one slot is ever live
            for name, prompt in prompts.items():
                reply = await policy.sample(prompt, params(turn, 3, stop=()), session=name)
                prompts[name] = (*prompt, *reply.ids, 7)
        return sum(len(prompt) - 2 for prompt in prompts.values())

    assert asyncio.run(play()) == policy.stats["fed"]


def test_the_oldest_parked_session_makes_room_for_new_ones():
    policy = HFPolicy(llama(), slots=3)

    async def fed(name, prompt):
        before = policy.stats["fed"]
        await policy.sample(prompt, params(0, 1), session=name)
        return policy.stats["fed"] - before

    async def play():
        prompts = [(n,) * 10 for n in (4, 5, 6, 7)]
        for name, prompt in zip("abcd", prompts, strict=True):
            assert await fed(name, prompt) == 10
        return [
            await fed(name, (*prompt, 9))
            for name, prompt in zip("dca", [prompts[3], prompts[2], prompts[0]], strict=True)
        ]

    assert asyncio.run(play()) == [1, 1, 11]


def test_a_released_session_gives_its_slot_back():
    policy = HFPolicy(llama(), slots=2)

    async def play():
        for n in range(20):
            await policy.sample((n + 4,) * 6, params(0, 2), session=f"{n}")
            policy.release(f"{n}")
        first = await policy.sample((4,) * 6, params(0, 1), session="kept")
        for n in range(20):
            task = asyncio.create_task(policy.sample((n + 4,) * 6, params(0, 30, stop=()), session=f"gone {n}"))
            await wait_for_tokens(policy, f"gone {n}")
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            policy.release(f"gone {n}")
        fed = policy.stats["fed"]
        await policy.sample(((4,) * 6 + first.ids), params(1, 1), session="kept")
        return policy.stats["fed"] - fed

    assert asyncio.run(play()) == 1


def test_a_caller_that_asks_again_finds_what_was_computed_for_it():
    policy = HFPolicy(llama())

    async def play():
        how = params(1, 9, stop=())
        task = asyncio.create_task(policy.sample(PROMPT, how, session="a"))
        await wait_for_tokens(policy, "a", 4)
        resume_from = policy.partial("a")
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert policy.partial("a") is None
        return await policy.sample(PROMPT, how, session="a", resume_from=resume_from)

    assert len(asyncio.run(play()).ids) == 9
    assert policy.stats["fed"] == len(PROMPT) + 8


def test_a_full_cache_is_not_copied_again():
    policy = HFPolicy(llama(), slots=2, context=20)

    async def play():
        requests = (policy.sample(make_prompt(n), params(n, 50, stop=()), session=f"{n}") for n in range(4))
        return await asyncio.gather(*requests)

    asyncio.run(play())
    tensor = policy.cache.kv
    replies = asyncio.run(play())
    assert policy.cache.kv is tensor
    assert {len(make_prompt(n)) + len(reply.ids) for n, reply in enumerate(replies)} == {20}
