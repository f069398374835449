"""Small groups of records and batches of tokens, with numbers that the test chooses, to run the parts of a recipe on."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from envs.types import Stop
from rl.checks import toy
from rl.learner.loss import step_streams
from rl.methods.inputs import Labels, Tokens
from rl.methods.recipe import Recipe
from rl.methods.streams import needs, score_parts
from rl.records import Completion, Group, Ticket, Trajectory, Turn

Table = Sequence[Sequence[float]]


def make_trajectory(*turns: tuple[int, float], context: int = 2, rng: np.random.Generator | None = None) -> Trajectory:
    """A trajectory of turns `(sampled tokens, reward)`, each after `context` tokens and in a state of its own."""
    rng = rng or np.random.default_rng(0)
    records = []
    for k, (count, reward) in enumerate(turns):
        logprobs = tuple(-rng.uniform(0.1, 2.0, count))
        completion = Completion(tuple(range(count)), logprobs, logprobs, (0,) * count)
        metrics = {"gain": 0.05 * count, "redundancy": 0.1 * k, "matched": 1.0}
        records.append(Turn((9,) * context, completion, reward=reward, state=f"state {k}", metrics=metrics))
    return Trajectory(records, Stop.TERMINATED)


def make_group(*trajectories: Trajectory, number: int = 0, rewards: Sequence[float] = ()) -> Group:
    """The group of ticket `number`; `rewards` replace the returns, as shaping does."""
    return Group(Ticket(number, number, "train", 0, len(trajectories)), list(trajectories), rewards=list(rewards))


def turn_index(mask: Tensor) -> Tensor:
    """Turn indices (B, T) int64 that take every unbroken run of sampled tokens for a turn; -1 where not sampled."""
    starts = mask & ~torch.nn.functional.pad(mask, (1, 0))[:, :-1]
    return torch.where(mask, starts.cumsum(-1) - 1, -1)


def make_labels(mask: Tensor, *, trajectory: Sequence[int] = (), group: Sequence[int] = ()) -> Labels:
    """Labels of one trajectory per row and one group in all, unless they are passed."""
    rows = torch.arange(len(mask))
    return Labels(
        trajectory=torch.tensor(trajectory) if trajectory else rows,
        group=torch.tensor(group) if group else torch.zeros_like(rows),
        turn=turn_index(mask.bool()),
    )


def make_tokens(
    logp: Table, old: Table, adv: Table | Sequence[float], mask: Table | None = None, **fields: Any
) -> Tokens:
    """Float64 tokens (B, T) whose `logp` takes a gradient. `adv` is (B, T), or (B,) with one number for each row."""
    now = torch.tensor(logp, dtype=torch.float64, requires_grad=True)
    sampled = torch.ones_like(now).bool() if mask is None else torch.tensor(mask).bool()
    advantage = torch.tensor(adv, dtype=torch.float64)
    extra = {
        key: torch.tensor(value, dtype=torch.float64) if isinstance(value, list) else value
        for key, value in fields.items()
    }
    defaults: dict[str, Any] = {
        "share": torch.zeros_like(now),
        "entropy": torch.zeros_like(now),
        "labels": make_labels(sampled),
    }
    return Tokens(
        logp=now,
        old=torch.tensor(old, dtype=torch.float64),
        adv=advantage[:, None].expand_as(now) if advantage.dim() == 1 else advantage,
        mask=sampled,
        **{**defaults, **extra},
    )


MISMATCH = (0.05, -0.1, 0.8, 0.1, 1.8)  # of trainer against sampler, by a token's id: beyond caps and bands, and within


class ToyScorer(toy.ToyScorer):
    """A critic whose values follow from the token's id, so that a test can choose them, and a trainer's mismatch."""

    def logprobs(self, trajectories: Sequence[Trajectory]) -> list[list[tuple[float, ...]]]:
        """The sampler's, moved by `MISMATCH`."""

        def moved(turn: Turn) -> tuple[float, ...]:
            pairs = zip(turn.completion.logprobs, turn.completion.ids, strict=True)
            return tuple(x + MISMATCH[id % len(MISMATCH)] for x, id in pairs)

        return [[moved(turn) for turn in t.turns] for t in trajectories]

    def values(self, trajectories: Sequence[Trajectory]) -> list[list[tuple[float, ...]]]:
        """0.1 for token 0, 0.2 for token 1, and so on."""
        return [[tuple(0.1 * (id + 1) for id in turn.completion.ids) for turn in t.turns] for t in trajectories]


def toy_groups(*, seed: int = 0) -> list[Group]:
    """Four groups of four trajectories with one to three turns, unequal lengths, dense rewards and mixed outcomes.

    One success of the third group has an invalid reply on its way.
    """
    rng = np.random.default_rng(seed)
    groups = []
    for number in range(4):
        members = []
        for member in range(4):
            lengths = rng.integers(1, 6, size=rng.integers(1, 4))
            rewards = [0.1 * (k % 2) for k in range(len(lengths) - 1)] + [float((member + number) % 3 == 0)]
            members.append(make_trajectory(*zip(map(int, lengths), rewards, strict=True), rng=rng))
            members[-1].success = bool(rewards[-1])
        groups.append(make_group(*members, number=number))
    next(member for member in groups[2].trajectories if member.success).turns[0].valid = False
    return groups


def off_policy(groups: Sequence[Group], recipe: Recipe, *, moved: Sequence[float] = ()) -> Tokens:
    """Tokens of one row per trajectory, as a run would build them, under a policy that has changed since the rollouts.

    Groups are shaped, filtered, scored and credited with `recipe` first. Shares are those of the whole step. `moved`
    is the log-ratio of each sampled token and leaves the critic as it was; without it both change at random.
    """
    for group in groups:
        for part in recipe.shape:
            group.rewards = part(group)
    groups = [group for group in groups if recipe.keep(group)]
    for fill in score_parts(recipe):
        asyncio.run(fill(ToyScorer(), groups))
    trajectories = [trajectory for group in groups for trajectory in group.trajectories]
    nested = recipe.credit(groups, recipe.normalization)
    for reweigh in recipe.reweigh:
        nested = reweigh(groups, nested)
    credit = [tokens for per_group in nested for tokens in per_group]
    histories = [next(iter(trajectory.sequences())) for trajectory in trajectories]
    mask = torch.zeros(len(histories), max(len(history.ids) for history in histories), dtype=torch.bool)
    for row, history in zip(mask, histories, strict=True):
        row[: len(history.ids)] = torch.tensor(history.sampled)

    def table(numbers: Sequence[float] | np.ndarray) -> Tensor:
        return torch.zeros(mask.shape, dtype=torch.float64).masked_scatter(mask, torch.tensor(np.array(numbers)))

    def stream(name: str) -> Tensor | None:
        turns = [turn for trajectory in trajectories for turn in trajectory.turns]
        numbers = [x for turn in turns for x in turn.streams.get(name, ())]
        return table(numbers) if numbers else None

    old = table([x for trajectory in trajectories for turn in trajectory.turns for x in turn.completion.logprobs])
    noise = torch.randn(mask.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * mask
    log_ratio, drift = (table(moved), 0 * noise) if moved else (0.5 * noise, 0.3 * noise)
    value = stream("value")
    proximal = stream("proximal")
    named = {name: values for name in ("reward", "staleness", "teacher") if (values := stream(name)) is not None}
    group_index = [i for i, group in enumerate(groups) for _ in group.trajectories]
    behaviour, old = old, old if proximal is None else proximal
    tokens = Tokens(
        logp=(old + log_ratio).requires_grad_(),
        old=old,
        adv=table(np.concatenate(credit)),
        mask=mask,
        share=recipe.reduce(mask.double(), make_labels(mask, group=group_index)),
        entropy=torch.ones_like(old).requires_grad_(),
        labels=make_labels(mask, group=group_index),
        ref=stream("ref"),
        value=None if value is None else (value + drift).requires_grad_(),
        old_value=value,
        returns=stream("returns"),
        behaviour=None if proximal is None else behaviour,
        streams=named,
    )
    if needs(recipe, "draws"):
        draws = {"drawn": tokens.old + 0.5 * log_ratio, "hits": 0.25 * mask.double()}
        tokens = replace(tokens, streams={**tokens.streams, **draws})
    with torch.no_grad():
        streams, _ = step_streams(tokens, recipe)
    return replace(tokens, streams={**tokens.streams, **streams})
