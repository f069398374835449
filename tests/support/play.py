"""Trajectories of the toy models: random ones, or sampled by the engine with a reward for one token."""

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


def random_trajectory(
    rng: np.random.Generator, first: Sequence[int], *, turns: int = 3, fresh: Sequence[int] = ()
) -> Trajectory:
    """Turns of random lengths after the context `first`; the turns `fresh` start a new token sequence."""
    records = []
    for k in range(turns):
        context = tuple(first) if k == 0 else tuple(rng.integers(VOCAB, size=rng.integers(1, 5)).tolist())
        ids = tuple(rng.integers(VOCAB, size=rng.integers(1, 6)).tolist())
        logprobs = tuple((-rng.uniform(2.0, 4.0, len(ids))).tolist())
        completion = Completion(ids, logprobs, logprobs, (0,) * len(ids))
        records.append(Turn(context, completion, reward=float(rng.integers(2)), fresh=k in fresh))
    return Trajectory(records, Stop.TERMINATED)


def random_groups(seed: int = 0) -> list[Group]:
    """Groups that share a first context: a plain one, one with fresh contexts, and one of a single short reply."""
    rng = np.random.default_rng(seed)
    firsts = [tuple(rng.integers(VOCAB, size=n).tolist()) for n in (6, 2, 9)]
    members = [
        [random_trajectory(rng, firsts[0], turns=int(n)) for n in (1, 3, 2)],
        [
            random_trajectory(rng, firsts[1], turns=4, fresh=(2,)),
            random_trajectory(rng, firsts[1], turns=3, fresh=(1, 2)),
        ],
        [random_trajectory(rng, firsts[2], turns=1)],
    ]
    return [
        Group(Ticket(number, number, "train", 0, len(own)), own, rewards=rng.normal(size=len(own)).tolist())
        for number, own in enumerate(members)
    ]


def sample_groups(
    policy: HFPolicy, *, groups: int = 4, size: int = 8, target: int = 7, seed: int = 0, length: int = 4, **how: Any
) -> list[Group]:
    """Sample two-turn episodes that earn the share of the token `target` in their replies."""

    async def play(number: int, member: int) -> Trajectory:
        session = f"{number}/{member}"
        prompt: tuple[int, ...] = (number + 8, 20, 21)
        turns = []
        history = ()
        for k, context in enumerate((prompt, (22,))):
            history += context
            params = SamplingParams(length, seed=derive(seed, number, member, k), **how)
            reply = await policy.sample(history, params, session=session)
            turns.append(Turn(context, reply, reward=reply.ids.count(target) / len(reply.ids)))
            history += reply.ids
        policy.release(session)
        return Trajectory(turns, Stop.TERMINATED, member=member)

    async def everything() -> list[Trajectory]:
        return await asyncio.gather(*(play(n, m) for n in range(groups) for m in range(size)))

    members = asyncio.run(everything())
    tickets = [Ticket(number, number, "train", 0, size) for number in range(groups)]
    return [Group(ticket, members[ticket.number * size :][:size]) for ticket in tickets]


def assert_learns(net: torch.nn.Module, *, lr: float) -> None:
    """Sample from `net` and train it, until nearly every episode earns most of what it can."""
    policy, learner, rewards = HFPolicy(net), Learner(net, lr=lr, epochs=2, minibatches=2), []
    for update in range(25):
        groups = sample_groups(policy, seed=update)
        rewards.append(np.mean([one.reward for one in trajectories(groups)]))
        learner.update(rows(grpo, groups), grpo, seed=update)
        policy.sync_weights()
    assert np.mean(rewards[:2]) < 0.2
    assert np.mean(rewards[-5:]) > 1.2  # of 2, one per turn


def rows(recipe: Recipe = grpo, groups: Sequence[Group] = (), **more: Any) -> list[batch.Row]:
    """Rows of `groups`, by default of the random ones."""
    return batch.build_rows(groups or random_groups(), recipe, **more)


def weights(net: torch.nn.Module) -> torch.Tensor:
    """All weights as one vector."""
    return torch.cat([weight.detach().flatten() for weight in net.parameters()])


def assert_same_step(one: torch.Tensor, other: torch.Tensor, *, lr: float) -> None:
    """Assert that weights after Adam's first step are equal up to rounding.

    That step is about `lr` for each weight, whatever the size of its gradient, so rounding that differs from CPU to CPU
    shows where a gradient is nearly 0. Another gradient moves many weights by more than `lr`.
    """
    difference = (one - other).abs()
    assert float(difference.max()) < 0.1 * lr
    assert float(difference.mean()) < 1e-4 * lr


def trajectories(groups: Sequence[Group]) -> list[Trajectory]:
    """The members of all groups."""
    return [trajectory for group in groups for trajectory in group.trajectories]


def flat(numbers: Sequence[Sequence[Sequence[float]]]) -> list[float]:
    """Numbers by trajectory, turn and token as one list."""
    return [x for turns in numbers for turn in turns for x in turn]


def sampler_logprobs(groups: Sequence[Group]) -> list[float]:
    """The sampler's log-probabilities."""
    return [x for t in trajectories(groups) for turn in t.turns for x in turn.completion.logprobs]


def saved_and_loaded(learner: Learner) -> Any:
    """A learner's state and its model's weights, through a file."""
    file = io.BytesIO()
    torch.save((learner.state_dict(), learner.model.state_dict()), file)
    file.seek(0)
    return torch.load(file, weights_only=True)
