"""Episodes of given lengths, played through an engine as `rl.rollout.episode` does, but without an environment."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from transformers import LlamaForCausalLM

from envs.types import Stop
from rl.learner.batch import trajectory_rows
from rl.methods.inputs import Row
from rl.policy.batching import BatchingEngine
from rl.policy.hf import HFPolicy
from rl.records import SamplingParams, Trajectory, Turn
from rl.seeds import derive

Ids = tuple[int, ...]


@dataclass(frozen=True)
class Size:
    """How much work a race is."""

    prompts: int = 8
    group: int = 8
    prompt_tokens: int = 16
    reply_tokens: int = 32
    turns: int = 6

    @property
    def episodes(self) -> int:
        """Episodes in all."""
        return self.prompts * self.group


@dataclass(frozen=True)
class Dialogue:
    """An episode whose reply lengths and observations are fixed beforehand."""

    prompt: Ids
    replies: Ids
    observations: tuple[Ids, ...] = ()


def play(policy: BatchingEngine, dialogues: Sequence[Dialogue]) -> list[Trajectory]:
    """Play all dialogues at once through the engine, one coroutine each, as `rl.rollout.episode` does."""

    async def together() -> list[Trajectory]:
        return await asyncio.gather(*(_episode(policy, dialogue, i) for i, dialogue in enumerate(dialogues)))

    return asyncio.run(together())


async def _episode(policy: BatchingEngine, dialogue: Dialogue, number: int) -> Trajectory:
    session, prompt, context = str(number), [*dialogue.prompt], dialogue.prompt
    record = Trajectory([], Stop.TERMINATED, member=number)
    for turn, length in enumerate(dialogue.replies):
        params = SamplingParams(max_tokens=length, seed=derive(number, turn))
        completion = await policy.sample(prompt, params, session=session)
        record.turns.append(Turn(context, completion))
        if turn < len(dialogue.observations):
            context = dialogue.observations[turn]
            prompt += (*completion.ids, *context)
    ids = [token for turn in record.turns for token in turn.completion.ids]
    record.turns[-1].reward = sum(ids) / len(ids) / 256  # no two alike, so that every episode has a gradient
    policy.release(session)
    return record


def words(rng: np.random.Generator, length: int) -> Ids:
    """Random token ids, all of them lower-case letters to the bundled model."""
    return tuple(rng.integers(97, 123, length).tolist())


def uniform(size: Size, rng: np.random.Generator) -> int:
    """A reply's length: 1 to `size.reply_tokens`, all equally likely."""
    return int(rng.integers(1, size.reply_tokens + 1))


def geometric(size: Size, rng: np.random.Generator) -> int:
    """A reply's length when every token may be the last with the same chance: the same mean, a longer tail."""
    return min(int(rng.geometric(2 / size.reply_tokens)), 2 * size.reply_tokens)


def ragged(
    size: Size, rng: np.random.Generator, prompts: Sequence[Ids], length: Callable[[Size, np.random.Generator], int]
) -> list[Dialogue]:
    """One to `size.turns` turns, with observations of 3 to 12 tokens; neighbours share a prompt."""
    found = []
    for number in range(size.episodes):
        replies = tuple(length(size, rng) for _ in range(rng.integers(1, size.turns + 1)))
        told = tuple(words(rng, int(rng.integers(3, 13))) for _ in replies[1:])
        found.append(Dialogue(prompts[number * len(prompts) // size.episodes], replies, told))
    return found


def shared_rows(model: LlamaForCausalLM, size: Size, rng: np.random.Generator) -> list[Row]:
    """Rows of single replies of equal length, a group to every prompt."""
    prompts = [words(rng, size.prompt_tokens) for _ in range(size.prompts)]
    return _rows(model, [Dialogue(prompt, (size.reply_tokens,)) for prompt in prompts for _ in range(size.group)], rng)


def ragged_rows(model: LlamaForCausalLM, size: Size, rng: np.random.Generator) -> list[Row]:
    """Rows of ragged dialogues, no two of which share anything."""
    prompts = [words(rng, size.prompt_tokens) for _ in range(size.episodes)]
    return _rows(model, ragged(size, rng, prompts, uniform), rng)


def _rows(model: LlamaForCausalLM, dialogues: Sequence[Dialogue], rng: np.random.Generator) -> list[Row]:
    played = play(HFPolicy(model), dialogues)
    return [
        row for i, one in enumerate(played) for row in trajectory_rows(one, rng.normal(size=one.num_sampled), number=i)
    ]
