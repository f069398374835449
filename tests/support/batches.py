"""Small groups and token batches with numbers chosen by the test: what the parts of a recipe are tried on."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from envs.types import Stop
from rl.methods.inputs import Labels, Tokens
from rl.methods.recipe import Recipe, score_parts
from rl.records import Branch, Completion, Group, Ticket, Trajectory, Turn

Table = Sequence[Sequence[float]]


def trajectory(*turns: tuple[int, float], context: int = 2, rng: np.random.Generator | None = None) -> Trajectory:
    """A trajectory of turns `(sampled tokens, reward)`, each after `context` tokens of observation, in a state each."""
    rng = rng or np.random.default_rng(0)
    records = []
    for k, (count, reward) in enumerate(turns):
        logprobs = tuple(-rng.uniform(0.1, 2.0, count))
        completion = Completion(tuple(range(count)), logprobs, logprobs, (0,) * count)
        told = {"gain": 0.05 * count, "redundancy": 0.1 * k, "matched": 1.0}
        records.append(Turn((9,) * context, completion, reward=reward, state=f"state {k}", metrics=told))
    return Trajectory(records, Stop.TERMINATED)


def group(*trajectories: Trajectory, number: int = 0, rewards: Sequence[float] = ()) -> Group:
    """The group of ticket `number`."""
    return Group(Ticket(number, number, "train", 0, len(trajectories)), list(trajectories), rewards=list(rewards))


def turn_index(mask: Tensor) -> Tensor:
    """Every unbroken run of sampled tokens of a row as one turn: (B, T) int64, -1 where not sampled."""
    starts = mask & ~torch.nn.functional.pad(mask, (1, 0))[:, :-1]
    return torch.where(mask, starts.cumsum(-1) - 1, -1)


def labels(mask: Tensor, *, trajectory: Sequence[int] = (), group: Sequence[int] = ()) -> Labels:
    """One trajectory per row and one group in all, unless told otherwise."""
    rows = torch.arange(len(mask))
    return Labels(
        trajectory=torch.tensor(trajectory) if trajectory else rows,
        group=torch.tensor(group) if group else torch.zeros_like(rows),
        turn=turn_index(mask.bool()),
    )


def tokens(logp: Table, old: Table, adv: Table | Sequence[float], mask: Table | None = None, **fields: Any) -> Tokens:
    """Float64 tokens whose `logp` takes a gradient. An `adv` of one number per row is spread over it."""
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
        "labels": labels(sampled),
    }
    return Tokens(
        logp=now,
        old=torch.tensor(old, dtype=torch.float64),
        adv=advantage[:, None].expand_as(now) if advantage.dim() == 1 else advantage,
        mask=sampled,
        **{**defaults, **extra},
    )


class ToyScorer:
    """Values and reference log-probabilities that depend on the token's place alone."""

    def values(self, trajectories: Sequence[Trajectory]) -> list[list[tuple[float, ...]]]:
        """Between 0 and 1, growing along each turn."""
        return [[tuple(0.1 * (k + 1) for k in turn.completion.ids) for turn in t.turns] for t in trajectories]

    def reference(self, trajectories: Sequence[Trajectory]) -> list[list[tuple[float, ...]]]:
        """A little below the sampler's."""
        return [[tuple(x - 0.2 for x in turn.completion.logprobs) for turn in t.turns] for t in trajectories]

    def features(self, trajectories: Sequence[Trajectory]) -> list[np.ndarray]:
        """Something of what was read and of what was said."""
        return [
            np.array([[[len(turn.context), k], [len(turn.completion.ids), k]] for k, turn in enumerate(t.turns)]) / 4.0
            for t in trajectories
        ]

    def continuations(self, trunks: Sequence[Sequence[int]], branches: Sequence[Branch]) -> list[list[float]]:
        """The likelier, the more was said before."""
        return [[-1.0 / branch.at] * branch.scored for branch in branches]

    def encode_reply(self, text: str) -> tuple[int, ...]:
        """Its bytes."""
        return tuple(text.encode())

    def hide_feedback(self, turn: Turn, placeholder: str) -> tuple[int, ...] | None:
        """Zeros."""
        return (0,) * len(turn.context)


def toy_groups(*, seed: int = 0) -> list[Group]:
    """Four groups of four trajectories with one to three turns, unequal lengths, dense rewards and mixed outcomes."""
    rng = np.random.default_rng(seed)
    groups = []
    for number in range(4):
        members = []
        for member in range(4):
            lengths = rng.integers(1, 6, size=rng.integers(1, 4))
            rewards = [0.1 * (k % 2) for k in range(len(lengths) - 1)] + [float((member + number) % 3 == 0)]
            members.append(trajectory(*zip(map(int, lengths), rewards, strict=True), rng=rng))
        groups.append(group(*members, number=number))
    return groups


def off_policy(groups: Sequence[Group], recipe: Recipe, *, moved: Sequence[float] = ()) -> Tokens:
    """One row per trajectory, as a run would build it, under a policy that has moved since the groups were played.

    Groups are shaped, filtered, scored and credited with `recipe` first. Shares are those of the whole step. `moved`
    gives the log-ratio of each sampled token and leaves the critic where it was; without it both move at random.
    """
    for played in groups:
        for part in recipe.shape:
            played.rewards = part(played)
    groups = [played for played in groups if recipe.keep(played)]
    for fill in score_parts(recipe):
        asyncio.run(fill(ToyScorer(), groups))
    trajectories = [trajectory for played in groups for trajectory in played.trajectories]
    credit = [earned for per_trajectory in recipe.credit(groups, recipe.normalization) for earned in per_trajectory]
    histories = [next(iter(trajectory.sequences())) for trajectory in trajectories]
    mask = torch.zeros(len(histories), max(len(history.ids) for history in histories), dtype=torch.bool)
    for row, history in zip(mask, histories, strict=True):
        row[: len(history.ids)] = torch.tensor(history.sampled)

    def table(numbers: Sequence[float] | np.ndarray) -> Tensor:
        return torch.zeros(mask.shape, dtype=torch.float64).masked_scatter(mask, torch.tensor(np.array(numbers)))

    def stream(name: str) -> Tensor | None:
        turns = [turn for trajectory in trajectories for turn in trajectory.turns]
        filled = [x for turn in turns for x in turn.streams.get(name, ())]
        return table(filled) if filled else None

    old = table([x for trajectory in trajectories for turn in trajectory.turns for x in turn.completion.logprobs])
    noise = torch.randn(mask.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * mask
    log_ratio, drift = (table(moved), 0 * noise) if moved else (0.5 * noise, 0.3 * noise)
    value = stream("value")
    whose = [i for i, played in enumerate(groups) for _ in played.trajectories]
    return Tokens(
        logp=(old + log_ratio).requires_grad_(),
        old=old,
        adv=table(np.concatenate(credit)),
        mask=mask,
        share=recipe.reduce(mask.double(), labels(mask, group=whose)),
        entropy=torch.ones_like(old).requires_grad_(),
        labels=labels(mask, group=whose),
        ref=stream("ref"),
        value=None if value is None else (value + drift).requires_grad_(),
        old_value=value,
        returns=stream("returns"),
    )
