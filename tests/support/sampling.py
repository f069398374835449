"""Replies of the sampling engine, alone and in dialogues, and what it means that two are the same."""

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


def sampled(policy, *asked, **named):
    """The completions of `(prompt, params)` pairs that are asked for at once."""

    async def together():
        return await asyncio.gather(*(policy.sample(prompt, how, **named) for prompt, how in asked))

    return asyncio.run(together())


def prompt_of(number):
    """Prompts of unlike lengths, some of which begin alike."""
    rng = np.random.default_rng(number)
    return (*PROMPT[: number % 3], *rng.integers(4, VOCAB, size=1 + number % 7).tolist())


async def drawn(policy, session, count=1):
    """Wait until the request of `session` has that many tokens."""
    while (found := policy.partial(session)) is None or len(found.ids) < count:
        await asyncio.sleep(0)


async def dialogue(policy, name, member=0, *, turns=4, pause=lambda: 0, patience=None):
    """The replies of a session with a few turns; `name` decides what is said in it, `member` what is drawn.

    `pause` is the time between turns. A caller that loses `patience` asks again for the rest of its reply.
    """
    rng = np.random.default_rng(name)
    session, history, replies = f"{name}/{member}", [*prompt_of(name)], []
    for turn in range(turns):
        for _ in range(pause()):
            await asyncio.sleep(0)
        how = params(derive(name, member, turn), max_tokens=int(rng.integers(1, 9)))
        received = None
        for _ in range(2 if patience else 0):
            asked = asyncio.create_task(policy.sample(tuple(history), how, session=session, received=received))
            for _ in range(1 + patience()):
                await asyncio.sleep(0)
            received = policy.partial(session)
            asked.cancel()
            await asyncio.gather(asked, return_exceptions=True)
        replies.append(await policy.sample(tuple(history), how, session=session, received=received))
        history += [*replies[-1].ids, *rng.integers(4, VOCAB, size=rng.integers(1, 5)).tolist()]
    policy.release(session)
    return replies


@cache
def lonely(name, member=0):
    """`dialogue` with nobody else around."""
    return asyncio.run(dialogue(HFPolicy(llama(), slots=1), name, member))


def assert_same(found, wanted):
    """Equal tokens, and log-probabilities equal but for rounding."""
    assert [reply.ids for reply in found] == [reply.ids for reply in wanted]
    assert [reply.finish for reply in found] == [reply.finish for reply in wanted]
    for mine, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(mine.logprobs, other.logprobs, atol=1e-5)
