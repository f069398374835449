"""Requests to a sampling engine, alone and in dialogues, and a comparison of replies."""

import asyncio
from functools import cache

import numpy as np

from rl.policy.hf import HFPolicy
from rl.records import SamplingParams
from rl.seeds import derive
from tests.support.models import VOCAB, model

STOP = 3
PROMPT = (5, 9, 2, 11, 30)


@cache
def llama():
    return model()


def params(seed=0, max_tokens=12, **changes):
    return SamplingParams(max_tokens=max_tokens, seed=seed, **{"stop": (STOP,), **changes})


def sample_all(policy, *requests, **options):
    """Return the completions of `(prompt, params)` pairs that are requested at the same time."""

    async def together():
        return await asyncio.gather(*(policy.sample(prompt, how, **options) for prompt, how in requests))

    return asyncio.run(together())


def make_prompt(number):
    """Return prompt `number`; prompts differ in length, and some share a prefix."""
    rng = np.random.default_rng(number)
    return (*PROMPT[: number % 3], *rng.integers(4, VOCAB, size=1 + number % 7).tolist())


async def wait_for_tokens(policy, session, count=1):
    """Wait until the request of `session` has that many tokens."""
    while (partial := policy.partial(session)) is None or len(partial.ids) < count:
        await asyncio.sleep(0)


async def play_dialogue(policy, name, member=0, *, turns=4, pause=lambda: 0, patience=None):
    """Return the replies of a session of a few turns; `name` decides its prompts, `member` its sampling seeds.

    `pause()` is the number of loop rounds between turns. With `patience`, every reply is cancelled twice after
    `1 + patience()` rounds and resumed from its partial completion.
    """
    rng = np.random.default_rng(name)
    session, history, replies = f"{name}/{member}", [*make_prompt(name)], []
    for turn in range(turns):
        for _ in range(pause()):
            await asyncio.sleep(0)
        how = params(derive(name, member, turn), max_tokens=int(rng.integers(1, 9)))
        resume_from = None
        for _ in range(2 if patience else 0):
            task = asyncio.create_task(policy.sample(tuple(history), how, session=session, resume_from=resume_from))
            for _ in range(1 + patience()):
                await asyncio.sleep(0)
            resume_from = policy.partial(session)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        replies.append(await policy.sample(tuple(history), how, session=session, resume_from=resume_from))
        history += [*replies[-1].ids, *rng.integers(4, VOCAB, size=rng.integers(1, 5)).tolist()]
    policy.release(session)
    return replies


async def play_at_random(policy, rng, names, *, turns=4):
    """Return the replies of groups of `play_dialogue`, by name and member: random arrivals, pauses and new weights.

    Some requests are cancelled and resumed; some dialogues are cancelled, which have an error in place of replies.
    """

    async def leave(task):
        for _ in range(rng.integers(1, 60)):
            await asyncio.sleep(0)
        task.cancel()

    playing, leaving = {}, []
    for name, member in [(name, member) for name in names for member in range(rng.integers(1, 4))]:
        for _ in range(rng.integers(0, 12) * (member == 0)):
            await asyncio.sleep(0)
        times = {"pause": int(rng.integers(1, 25)), "patience": int(rng.integers(2, 40))}
        options = {key: lambda most=most: int(rng.integers(0, most)) for key, most in times.items()}
        if rng.random() < 0.7:
            del options["patience"]
        playing[name, member] = asyncio.create_task(play_dialogue(policy, name, member, turns=turns, **options))
        if rng.random() < 0.1:
            leaving.append(asyncio.create_task(leave(playing[name, member])))
        if rng.random() < 0.1:
            policy.sync_weights()
    await asyncio.gather(*leaving)
    return dict(zip(playing, await asyncio.gather(*playing.values(), return_exceptions=True), strict=True))


@cache
def play_dialogue_alone(name, member=0):
    """Return the replies of `play_dialogue` on an engine with no other requests."""
    return asyncio.run(play_dialogue(HFPolicy(llama(), slots=1), name, member))


def assert_same_replies(replies, expected):
    """Assert equal tokens, and log-probabilities that are equal up to rounding."""
    assert [reply.ids for reply in replies] == [reply.ids for reply in expected]
    assert [reply.finish for reply in replies] == [reply.finish for reply in expected]
    for mine, other in zip(replies, expected, strict=True):
        # Kernels round differently with the number of rows; 1.05e-5 was measured on one CPU.
        np.testing.assert_allclose(mine.logprobs, other.logprobs, atol=2e-5)
