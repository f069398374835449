"""Trajectories of the toy models: drawn at random, or sampled by the engine with a reward for one token."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from envs.types import Stop
from rl.learner import batch
from rl.learner.learner import Learner
from rl.methods.recipe import Recipe
from rl.methods.recipes.grpo import recipe as grpo
from rl.policy.hf import HFPolicy
from rl.records import Completion, Group, SamplingParams, Ticket, Trajectory, Turn
from rl.seeds import derive
from tests.support.models import VOCAB


def invented(
    rng: np.random.Generator, first: Sequence[int], *, turns: int = 3, fresh: Sequence[int] = ()
) -> Trajectory:
    """Ragged turns after the context `first`; the history starts anew at the turns `fresh`."""
    records = []
    for k in range(turns):
        context = tuple(first) if k == 0 else tuple(rng.integers(VOCAB, size=rng.integers(1, 5)).tolist())
        ids = tuple(rng.integers(VOCAB, size=rng.integers(1, 6)).tolist())
        logprobs = tuple((-rng.uniform(2.0, 4.0, len(ids))).tolist())
        completion = Completion(ids, logprobs, logprobs, (0,) * len(ids))
        records.append(Turn(context, completion, reward=float(rng.integers(2)), fresh=k in fresh))
    return Trajectory(records, Stop.TERMINATED)


def invented_groups(seed: int = 0) -> list[Group]:
    """Groups that share a first context, one that also has histories begun anew, and one of a single short reply."""
    rng = np.random.default_rng(seed)
    firsts = [tuple(rng.integers(VOCAB, size=n).tolist()) for n in (6, 2, 9)]
    members = [
        [invented(rng, firsts[0], turns=int(n)) for n in (1, 3, 2)],
        [invented(rng, firsts[1], turns=4, fresh=(2,)), invented(rng, firsts[1], turns=3, fresh=(1, 2))],
        [invented(rng, firsts[2], turns=1)],
    ]
    return [
        Group(Ticket(number, number, "train", 0, len(played)), played, rewards=rng.normal(size=len(played)).tolist())
        for number, played in enumerate(members)
    ]


def sampled_groups(
    policy: HFPolicy, *, groups: int = 4, size: int = 8, wanted: int = 7, seed: int = 0, length: int = 4, **how: Any
) -> list[Group]:
    """Two-turn episodes that earn the share of `wanted` among their tokens."""

    async def play(number: int, member: int) -> Trajectory:
        prompt: tuple[int, ...] = (number + 8, 20, 21)
        turns = []
        history = ()
        for k, context in enumerate((prompt, (22,))):
            history += context
            params = SamplingParams(length, seed=derive(seed, number, member, k), **how)
            reply = await policy.sample(history, params, session=f"{number}/{member}")
            turns.append(Turn(context, reply, reward=reply.ids.count(wanted) / len(reply.ids)))
            history += reply.ids
        policy.release(f"{number}/{member}")
        return Trajectory(turns, Stop.TERMINATED, member=member)

    async def everything() -> list[Trajectory]:
        return await asyncio.gather(*(play(n, m) for n in range(groups) for m in range(size)))

    played = asyncio.run(everything())
    tickets = [Ticket(number, number, "train", 0, size) for number in range(groups)]
    return [Group(ticket, played[ticket.number * size :][:size]) for ticket in tickets]


def assert_learns(net: torch.nn.Module, *, lr: float) -> None:
    """Sample from `net` and train it, until nearly every episode earns most of what it can."""
    policy, learner, rewards = HFPolicy(net), Learner(net, lr=lr, epochs=2, minibatches=2), []
    for update in range(25):
        groups = sampled_groups(policy, seed=update)
        rewards.append(np.mean([one.reward for one in trajectories(groups)]))
        learner.update(rows(grpo, groups), grpo, seed=update)
        policy.refresh()
    assert np.mean(rewards[:2]) < 0.2
    assert np.mean(rewards[-5:]) > 1.2  # of 2, one per turn


def rows(recipe: Recipe = grpo, groups: Sequence[Group] = (), **more: Any) -> list[batch.Row]:
    """Rows of `groups`, by default the invented ones."""
    return batch.build(groups or invented_groups(), recipe, **more)


def weights(net: torch.nn.Module) -> torch.Tensor:
    """All of them, flat."""
    return torch.cat([weight.detach().flatten() for weight in net.parameters()])


def trajectories(groups: Sequence[Group]) -> list[Trajectory]:
    """The members of all groups."""
    return [trajectory for group in groups for trajectory in group.trajectories]


def flat(numbers: Sequence[Sequence[Sequence[float]]]) -> list[float]:
    """Numbers per trajectory, turn and token as one list."""
    return [x for turns in numbers for turn in turns for x in turn]


def recorded(groups: Sequence[Group]) -> list[float]:
    """The sampler's log-probabilities."""
    return [x for t in trajectories(groups) for turn in t.turns for x in turn.completion.logprobs]


def kept(learner: Learner) -> Any:
    """A learner's state and its model's weights, through a file."""
    file = io.BytesIO()
    torch.save((learner.state_dict(), learner.model.state_dict()), file)
    file.seek(0)
    return torch.load(file, weights_only=True)
