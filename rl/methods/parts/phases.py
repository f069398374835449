"""In which phases an update's rows are learned: `(rows, logprobs) -> iterator of rows`, one phase after the other.

Each phase is learned in optimiser steps of its own before the next is requested, so code between two phases sees the
weights that the first has produced. `logprobs(rows)` computes the current policy's log-probability of every sampled
token, one array per row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from rl.methods.estimators import turn_by_turn
from rl.methods.estimators.statistics import Bools, Floats
from rl.methods.options import NonNegative

if TYPE_CHECKING:
    from rl.methods.inputs import Row

Logprobs = Callable[["Sequence[Row]"], list[np.ndarray]]


def joint(rows: Sequence[Row], logprobs: Logprobs) -> Iterator[Sequence[Row]]:
    """Yield all rows at once: a single phase."""
    yield rows


def by_turn(
    rows: Sequence[Row],
    logprobs: Logprobs,
    *,
    order: Literal["reverse", "forward"] = "reverse",
    low: NonNegative = 0.2,
    high: NonNegative = 0.2,
) -> Iterator[Sequence[Row]]:
    """SeeUPO (arXiv:2602.06554): one turn of every trajectory after the other, from the last to the first.

    A phase's ratios are against the policy at the start of the phase. A trajectory's advantage is multiplied by how
    much likelier its turns of earlier phases became, each by the mean over its tokens and held within `1 - low` and
    `1 + high`, as is the product. A trajectory without the turn has no part in the phase, and keeps its product.
    """
    factors = np.ones(1 + max((row.trajectory for row in rows), default=0))  # one per trajectory
    turns = {int(turn) for row in rows for turn in np.unique(row.turn[row.mask])}
    sequence = [turn for turn in turn_by_turn.order(1 + max(turns, default=-1), kind=order) if turn in turns]
    for turn in sequence:
        phase = [_cut_to_turn(row, turn) for row in rows if (row.turn == turn).any()]
        trajectories = [row.trajectory for row in phase]
        before = logprobs(phase)
        yield [_rebase(row, old, factors[row.trajectory]) for row, old in zip(phase, before, strict=True)]
        if turn != sequence[-1]:
            old_table, mask = _pad(before)
            new_table, _ = _pad(logprobs(phase))
            factors[trajectories] = turn_by_turn.carry_ratio(
                old_table, new_table, mask, factors[trajectories], low=low, high=high
            )


def by_agent(
    rows: Sequence[Row],
    logprobs: Logprobs,
    *,
    order: Literal["reverse", "forward"] = "reverse",
    names: str = "",
    low: NonNegative = 0.2,
    high: NonNegative = 0.2,
) -> Iterator[Sequence[Row]]:
    """SeeUPO (arXiv:2602.06554) over the agents of a team: all turns of one agent after those of another.

    As `by_turn`, with agents in place of turns: an advantage is multiplied by how much likelier the replies of the
    agents of earlier phases became in the same episode, by the mean over their tokens. Agents are seats, or roles where
    the strategy tells them apart (`by_role`). They come in the order in which the update names them, which is that of
    the seats, or of who speaks first, reversed by default; or in that of `names`, joined by `+`, with any others last.
    """
    agents = [*dict.fromkeys(row.agent for row in rows)][:: -1 if order == "reverse" else 1]
    first = [name for name in names.split("+") if name in agents]
    sequence = [*first, *(name for name in agents if name not in first)]
    place = {episode: index for index, episode in enumerate(dict.fromkeys(row.episode for row in rows))}
    factors = np.ones(len(place))  # one per episode
    for name in sequence:
        phase = [row for row in rows if row.agent == name]
        before = logprobs(phase)
        yield [_rebase(row, old, factors[place[row.episode]]) for row, old in zip(phase, before, strict=True)]
        if name != sequence[-1]:
            episodes = [*dict.fromkeys(row.episode for row in phase)]
            old_table, mask = _pad(_join(phase, before, episodes))
            new_table, _ = _pad(_join(phase, logprobs(phase), episodes))
            indices = [place[episode] for episode in episodes]
            factors[indices] = turn_by_turn.carry_ratio(
                old_table, new_table, mask, factors[indices], low=low, high=high
            )


def _join(rows: Sequence[Row], values: Sequence[np.ndarray], episodes: Sequence[int]) -> list[np.ndarray]:
    """The values of all rows of each episode, one array after the other."""
    of_episode: dict[int, list[np.ndarray]] = {episode: [] for episode in episodes}
    for row, value in zip(rows, values, strict=True):
        of_episode[row.episode].append(value)
    return [np.concatenate(parts) for parts in of_episode.values()]


def _cut_to_turn(row: Row, turn: int) -> Row:
    """The row up to the end of `turn`, with only that turn's tokens sampled."""
    end = int(np.flatnonzero(row.turn == turn)[-1]) + 1
    mask = row.turn[:end] == turn
    return replace(
        row,
        ids=row.ids[:end],
        mask=mask,
        old=row.old[:end] * mask,
        adv=row.adv[:end] * mask,
        turn=np.where(mask, turn, -1),
        streams={name: values[:end] * mask for name, values in row.streams.items()},
    )


def _rebase(row: Row, logprobs: np.ndarray, factor: float) -> Row:
    """The row with ratios against `logprobs`, one per sampled token, its advantage multiplied by `factor`."""
    old, adv = np.zeros_like(row.old), row.adv * np.float32(factor)
    old[row.mask] = logprobs
    if "proximal" in row.streams:
        return replace(row, streams={**row.streams, "proximal": old}, adv=adv)
    return replace(row, old=old, adv=adv)


def _pad(ragged: Sequence[np.ndarray]) -> tuple[Floats, Bools]:
    """Arrays of unequal lengths as one (B, T) table, and the mask of its entries."""
    mask = np.arange(max(map(len, ragged))) < np.array([len(values) for values in ragged])[:, None]
    table = np.zeros(mask.shape)
    table[mask] = np.concatenate(ragged)
    return table, mask
