"""In which phases an update's rows are learned: `(rows, logprobs) -> iterator of rows`, one phase after the other.

Each phase is learned in optimiser steps of its own before the next is asked for, so what a part does between two of
them sees the weights that the first has left. `logprobs(rows)` tells the present policy's log-probability of every
sampled token, one array per row.
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
    """All rows at once."""
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

    A phase's ratios are against the policy as it stands when the phase begins. A trajectory's advantage is multiplied
    by how much likelier its turns of earlier phases became, each by the mean over its tokens and held within `1 - low`
    and `1 + high`, as is the product. A trajectory without the turn has no part in the phase, and keeps its product.
    """
    carried = np.ones(1 + max((row.trajectory for row in rows), default=0))
    turns = {int(turn) for row in rows for turn in np.unique(row.turn[row.mask])}
    left = [turn for turn in turn_by_turn.order(1 + max(turns, default=-1), kind=order) if turn in turns]
    for turn in left:
        chosen = [_only(row, turn) for row in rows if (row.turn == turn).any()]
        whose = [row.trajectory for row in chosen]
        before = logprobs(chosen)
        yield [_from(row, old, carried[row.trajectory]) for row, old in zip(chosen, before, strict=True)]
        if turn != left[-1]:
            was, mask = _table(before)
            now, _ = _table(logprobs(chosen))
            carried[whose] = turn_by_turn.carried(was, now, mask, carried[whose], low=low, high=high)


def _only(row: Row, turn: int) -> Row:
    """The row up to the end of one of its turns, with that one sampled alone."""
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


def _from(row: Row, old: np.ndarray, factor: float) -> Row:
    """The row as if sampled by the policy of `old`, its advantage times `factor`."""
    begun = np.zeros_like(row.old)
    begun[row.mask] = old
    return replace(row, old=begun, adv=row.adv * np.float32(factor))


def _table(ragged: Sequence[np.ndarray]) -> tuple[Floats, Bools]:
    """Arrays of unequal lengths as one (N, T) table, and where they are."""
    mask = np.arange(max(map(len, ragged))) < np.array([len(values) for values in ragged])[:, None]
    table = np.zeros(mask.shape)
    table[mask] = np.concatenate(ragged)
    return table, mask
