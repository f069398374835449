"""From records to rows: the one place where credit meets tokens. Plain NumPy; tensors are made by `rl.learner.packing`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby, islice
from typing import TYPE_CHECKING

import numpy as np

from rl.methods.inputs import Row
from rl.records import Group, Trajectory

if TYPE_CHECKING:
    from rl.methods.recipe import Recipe

STREAMS = ("ref", "value", "returns")


def rows_of(
    trajectory: Trajectory, credit: np.ndarray, *, number: int = 0, group: int = 0, temperature: float = 1.0
) -> list[Row]:
    """The rows of one trajectory; `credit` is its advantage per sampled token, in order."""
    sampled = trajectory.num_sampled
    if len(credit) != sampled:
        raise ValueError(f"credit for {len(credit)} tokens, but task {trajectory.task!r} has {sampled} sampled tokens")
    earned = {"adv": np.asarray(credit, np.float32)}
    for name in STREAMS:
        if trajectory.turns and all(name in turn.streams for turn in trajectory.turns):
            parts = [np.asarray(turn.streams[name], np.float32) for turn in trajectory.turns]
            earned[name] = np.concatenate(parts) if parts else np.zeros(0, np.float32)
    rows, used = [], 0
    for history in trajectory.sequences():
        mask = np.asarray(history.sampled)
        if not mask.any():
            continue
        start = int(mask.argmax())
        if not start:
            raise ValueError(f"a history of task {trajectory.task!r} begins with a sampled token: nothing predicts it")
        count = int(mask.sum())
        mask = mask[start:]
        columns = {}
        for name, values in earned.items():
            columns[name] = np.zeros(len(mask), np.float32)
            columns[name][mask] = values[used : used + count]
        used += count
        rows.append(
            Row(
                prefix=tuple(history.ids[:start]),
                ids=np.asarray(history.ids[start:], np.int64),
                mask=mask,
                old=np.asarray(history.logprobs[start:], np.float32),
                adv=columns.pop("adv"),
                turn=np.asarray(history.turn[start:], np.int64),
                streams=columns,
                trajectory=number,
                group=group,
                temperature=temperature,
                replayed=trajectory.replayed,
            )
        )
    return rows


def build(groups: Sequence[Group], recipe: Recipe, *, temperature: float = 1.0) -> list[Row]:
    """Credit `groups` with `recipe` and lay them out as rows, members of a group next to each other.

    The credit also stays in the records, as the stream `advantage` of every turn, for whoever reads them later.
    """
    rows: list[Row] = []
    number = 0
    for index, (group, credits) in enumerate(zip(groups, recipe.credit(groups, recipe.normalization), strict=True)):
        for trajectory, credit in zip(group.trajectories, credits, strict=True):
            rows += rows_of(trajectory, credit, number=number, group=index, temperature=temperature)
            number += 1
            left = iter(np.asarray(credit).tolist())
            for turn in trajectory.turns:
                turn.streams["advantage"] = tuple(islice(left, len(turn.completion.ids)))
    return rows


def split(rows: Sequence[Row], budget: int) -> list[list[Row]]:
    """Consecutive micro-batches of at most `budget` computed tokens each; shared prefixes count once.

    The rows of a trajectory stay together, as parts of the loss may sum over them: a longer one is alone.
    """
    parts: list[list[Row]] = []
    used, prefixes = 0, set[tuple[int, ...]]()
    for _, played in groupby(rows, key=lambda row: row.trajectory):
        together = list(played)
        own, new = sum(row.size for row in together), {row.prefix for row in together}
        cost = own + sum(map(len, new - prefixes))
        if not parts or used + cost > budget:
            parts.append([])
            used, prefixes, cost = 0, set(), own + sum(map(len, new))
        parts[-1] += together
        prefixes |= new
        used += cost
    return parts
