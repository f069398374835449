"""From records to rows: the one place where advantages are assigned to tokens.

Plain NumPy; `rl.learner.packing` makes tensors of the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any

import numpy as np

from rl.methods.inputs import Row
from rl.methods.options import PartError
from rl.methods.results import describe, part_label
from rl.records import Group, Trajectory

if TYPE_CHECKING:
    from rl.methods.recipe import Recipe

STREAMS = ("ref", "value", "returns", "proximal", "reward", "staleness", "teacher", "draws", "draw_seed")


def trajectory_rows(
    trajectory: Trajectory,
    advantages: np.ndarray,
    *,
    number: int = 0,
    group: int = 0,
    episode: int = 0,
    temperature: float = 1.0,
) -> list[Row]:
    """Return the rows of one trajectory, one per unbroken token history.

    Args:
        trajectory: The record. Streams that all of its turns have (`STREAMS`) are copied to the rows.
        advantages: (M,), one per sampled token of the trajectory, in order.
        number: Index of the trajectory in the optimiser step; the rows' `trajectory`.
        group: Index of its group; the rows' `group`.
        episode: Index of its episode; the rows' `episode`.
        temperature: Sampling temperature of the recorded log-probabilities.

    Raises:
        ValueError: The number of advantages is not that of sampled tokens, or a history begins with a sampled token.
    """
    num_sampled = trajectory.num_sampled
    if len(advantages) != num_sampled:
        raise ValueError(
            f"{len(advantages)} advantages, but the trajectory of task {trajectory.task!r} has {num_sampled} "
            "sampled tokens"
        )
    values_by_name = {"adv": np.asarray(advantages, np.float32)}
    streams = [turn.streams for turn in trajectory.turns]
    common = set(STREAMS).intersection(*streams) if streams else ()
    for name in STREAMS:
        if name in common:
            values_by_name[name] = np.concatenate([np.asarray(each[name], np.float32) for each in streams])
    rows, offset = [], 0
    for history in trajectory.sequences():
        mask = np.asarray(history.sampled)
        places = np.flatnonzero(mask)
        count = len(places)
        if not count:
            continue
        start = int(places[0])
        if not start:
            raise ValueError(f"a history of task {trajectory.task!r} begins with a sampled token: nothing predicts it")
        mask = mask[start:]
        columns = {}
        for name, values in values_by_name.items():
            columns[name] = np.zeros(len(mask), np.float32)
            columns[name][mask] = values[offset : offset + count]
        offset += count
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
                replayed=trajectory.replayed or bool(trajectory.player),
                agent=trajectory.agent,
                episode=episode,
                images=tuple(history.images),
            )
        )
    return rows


def build_rows(groups: Sequence[Group], recipe: Recipe, *, temperature: float = 1.0) -> list[Row]:
    """Compute the advantages of `groups` with `recipe`; return all rows, members of a group next to each other.

    A row is one unbroken token history of a trajectory, with an advantage per sampled token. `temperature` is that of
    sampling. The advantages are also stored in the records, as the stream `advantage` of every turn, for reports and
    viewers. Raises `PartError` if the credit part returns another number of advantages than of sampled tokens, or one
    that is no finite number.
    """
    rows: list[Row] = []
    number = 0
    episodes: dict[tuple[int, int], int] = {}  # by ticket and member
    credit = recipe.credit(groups, recipe.normalization)
    _check_credit("credit", recipe.credit, credit, groups)
    for part in recipe.reweigh:
        credit = part(groups, credit)
        _check_credit("reweigh", part, credit, groups)
    for index, (group, credits) in enumerate(zip(groups, credit, strict=True)):
        for trajectory, advantages in zip(group.trajectories, credits, strict=True):
            episode = episodes.setdefault((group.ticket.number, trajectory.member), len(episodes))
            rows += trajectory_rows(
                trajectory, advantages, number=number, group=index, episode=episode, temperature=temperature
            )
            number += 1
            remaining = iter(np.asarray(advantages).tolist())
            for turn in trajectory.turns:
                turn.streams["advantage"] = tuple(islice(remaining, len(turn.completion.ids)))
    return rows


def _check_credit(slot: str, part: Callable, credit: Any, groups: Sequence[Group]) -> None:
    """Raise `PartError`, which names a part, unless it has given each sampled token a finite number as advantage."""
    label, expected = part_label(slot, part), [[t.num_sampled for t in group.trajectories] for group in groups]
    try:
        lengths = [[len(advantages) for advantages in of_group] for of_group in credit]
        flat = [advantages for of_group in credit for advantages in of_group]
        values = np.concatenate(flat) if flat else np.zeros(0)
        is_finite = np.isfinite(values)
    except (TypeError, ValueError):
        raise PartError(
            f"{label}: returned {describe(credit)}, expected numbers for each trajectory of each group"
        ) from None
    if lengths != expected:
        raise PartError(f"{label}: returned another number of advantages than there are sampled tokens")
    if not is_finite.all():
        raise PartError(f"{label}: returned the advantage {values[~is_finite][0]}, expected finite ones")


def split_microbatches(rows: Sequence[Row], max_tokens: int, *, whole_trajectories: bool = True) -> list[list[Row]]:
    """Split `rows` into consecutive micro-batches of at most `max_tokens` computed tokens each.

    A prefix that several rows of a micro-batch share counts once. With `whole_trajectories` the rows of a trajectory
    stay together, as parts of the loss may sum over them, and a trajectory that is longer than `max_tokens` is a
    micro-batch of its own; otherwise only a single row may be longer.
    """
    parts: list[list[Row]] = []
    used, prefixes = 0, set[tuple[int, ...]]()
    units = (
        [list(members) for _, members in groupby(rows, key=lambda row: row.trajectory)]
        if whole_trajectories
        else [[row] for row in rows]
    )
    for unit in units:
        own, new = sum(row.size for row in unit), {row.prefix for row in unit}
        cost = own + sum(map(len, new - prefixes))
        if not parts or used + cost > max_tokens:
            parts.append([])
            used, prefixes, cost = 0, set(), own + sum(map(len, new))
        parts[-1] += unit
        prefixes |= new
        used += cost
    return parts
