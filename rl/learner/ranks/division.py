"""How the processes that train one model together divide its rows and add up what each has computed.

A learner asks its ranks, never how many there are: `Alone` answers for the only process. Every rank gets all rows of a
step, so that shares, phases and minibatches are computed alike everywhere; it makes the passes of its own trajectories.

Legend: M sampled tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from itertools import groupby
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor, nn

from rl.methods.inputs import Row

Model = TypeVar("Model", bound=nn.Module)
LARGEST_SKEW = 1.1  # tokens of the busiest rank over the mean, above which the members of a group are parted


class Ranks(Protocol):
    """The processes that train a model, as one of them sees them."""

    count: int

    def own(self, rows: Sequence[Row]) -> list[int]:
        """Return the indices of the rows that this rank computes, in order; whole trajectories."""

    def most(self, count: int) -> int:
        """Return the largest `count` of any rank. All ranks must call it."""

    def total(self, numbers: Tensor) -> Tensor:
        """Return the sum over the ranks of a tensor that has the same shape on all. All ranks must call it."""

    def largest(self, numbers: Tensor) -> Tensor:
        """Return the elementwise maximum over the ranks. All ranks must call it."""

    def shard(self, module: nn.Module) -> None:
        """Keep only this rank's part of the weights of `module` between its passes, in place."""

    def copy(self, model: Any) -> Any:
        """Return a copy of a model that `shard` was called with, sharded alike."""

    def whole_state(self, state: dict[str, Any]) -> dict[str, Any]:
        """Return `state`, nested dictionaries and lists, with whole tensors. All ranks must call it."""

    def part(self, whole: Tensor, like: Tensor) -> Tensor:
        """Return the part of `whole` that this rank keeps, laid out as the weight `like`."""

    def part_of_optimizer(self, state: dict[str, Any], weights: Sequence[Tensor]) -> dict[str, Any]:
        """Return an optimiser's state with the parts that this rank keeps, for its `weights`."""


class Alone:
    """The only process that trains a model."""

    count = 1

    def own(self, rows: Sequence[Row]) -> list[int]:
        """All rows."""
        return list(range(len(rows)))

    def most(self, count: int) -> int:
        """`count`."""
        return count

    def total(self, numbers: Tensor) -> Tensor:
        """`numbers`."""
        return numbers

    def largest(self, numbers: Tensor) -> Tensor:
        """`numbers`."""
        return numbers

    def shard(self, module: nn.Module) -> None:
        """Leave `module` as it is."""

    def copy(self, model: Any) -> Any:
        """A deep copy."""
        return deepcopy(model)

    def whole_state(self, state: dict[str, Any]) -> dict[str, Any]:
        """`state`."""
        return state

    def part(self, whole: Tensor, like: Tensor) -> Tensor:
        """`whole`."""
        return whole

    def part_of_optimizer(self, state: dict[str, Any], weights: Sequence[Tensor]) -> dict[str, Any]:
        """`state`."""
        return state


def divide(rows: Sequence[Row], count: int) -> list[list[int]]:
    """Divide `rows` over `count` ranks by their number of tokens; return the indices of each rank's rows, in order.

    The largest group goes to the emptiest rank, then the next: members of a group share the pass of their prompt. Where
    the busiest rank would get more than `LARGEST_SKEW` times the mean, trajectories are divided instead.
    """
    by_group = _spread(rows, count, lambda row: row.group)
    if _skew(rows, by_group) <= LARGEST_SKEW:
        return by_group
    by_trajectory = _spread(rows, count, lambda row: row.trajectory)
    return by_trajectory if _skew(rows, by_trajectory) < _skew(rows, by_group) else by_group


def _spread(rows: Sequence[Row], count: int, unit_of: Callable[[Row], int]) -> list[list[int]]:
    units: dict[int, list[int]] = {}
    for unit, members in groupby(range(len(rows)), key=lambda i: unit_of(rows[i])):
        units.setdefault(unit, []).extend(members)
    loads, parts = [0] * count, [list[int]() for _ in range(count)]
    for indices in sorted(units.values(), key=lambda indices: -_tokens(rows, indices)):
        emptiest = loads.index(min(loads))
        loads[emptiest] += _tokens(rows, indices)
        parts[emptiest] += indices
    return [sorted(part) for part in parts]


def _tokens(rows: Sequence[Row], indices: Sequence[int]) -> int:
    """Tokens of a pass over some rows, in which every prefix is computed once."""
    return sum(rows[i].size for i in indices) + sum(map(len, {rows[i].prefix for i in indices}))


def _skew(rows: Sequence[Row], parts: Sequence[Sequence[int]]) -> float:
    loads = [_tokens(rows, part) for part in parts]
    return max(loads) * len(loads) / max(sum(loads), 1)


def place(results: Sequence[Tensor], rows: Sequence[Row], indices: Sequence[int], like: Tensor) -> Tensor:
    """Return the (M, ...) tensor of all `rows` that has `results`, those of the rows at `indices`, and 0 elsewhere."""
    counts = [int(row.mask.sum()) for row in rows]
    starts = torch.tensor([0, *counts]).cumsum(0).tolist()
    table = like.new_zeros(starts[-1], *like.shape[1:])
    if len(indices) == len(rows):
        return torch.cat(list(results))
    if results:
        values, first = torch.cat(list(results)), 0
        for i in indices:
            table[starts[i] : starts[i + 1]] = values[first : first + counts[i]]
            first += counts[i]
    return table
