"""Baselines of least variance: means of returns weighted by squared gradients.

Legend: B trajectories, T positions, the tokens of a trajectory without gaps.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rl.methods.estimators import statistics, turn_table
from rl.methods.estimators.shapes import expect_shapes
from rl.methods.estimators.statistics import Bools, Floats, Ints
from rl.records import Group


def compact(groups: Sequence[Group]) -> tuple[Bools, Ints]:
    """A mask (B, T) of the tokens of each trajectory, which begin at position 0, and each trajectory's group (B,)."""
    table = turn_table.from_groups(groups)
    lengths = table.lengths
    return np.arange(int(lengths.max(initial=0))) < lengths[:, None], table.group


def token_baseline(to_go: Floats, weight: Floats, mask: Bools, group: Ints, *, zero_tail: bool) -> Floats:
    """The mean (B, T) of `to_go` at each position over the members of the group that have it, weighted by `weight`.

    All tables are (B, T), `group` (B,). With `zero_tail` it is 0 where the longest member is alone; a group of one has
    its own `to_go` as baseline there too.
    """
    expect_shapes(to_go=(to_go, "BT"), weight=(weight, "BT"), mask=(mask, "BT"), group=(group, "B"))
    baseline = np.zeros_like(to_go)
    lengths = mask.sum(1)
    for label in np.unique(group):
        rows = np.flatnonzero((group == label) & (lengths > 0))
        if not len(rows):
            continue
        weights = weight[rows] * mask[rows]
        anchor = np.where(mask[rows], to_go[rows], -np.inf).max(0)  # from which equal values deviate by exactly 0
        anchor = np.where(np.isfinite(anchor), anchor, 0.0)
        deviation = np.where(mask[rows], to_go[rows] - anchor, 0.0)
        mean = anchor + (weights * deviation).sum(0) / (weights.sum(0) + 1e-8)
        if zero_tail and len(rows) > 1:
            mean = np.where(np.arange(mask.shape[1]) < np.sort(lengths[rows])[-2], mean, 0.0)
        baseline[rows] = mean if len(rows) > 1 else to_go[rows]
    return baseline


def weighted_baseline(
    returns: Floats, norms: Floats, ratio: Floats, group: Ints, lengths: Ints | None = None
) -> Floats:
    """The mean (B,) of `returns` in each `group` (B,), weighted by `norms^2 ratio^2`, over `lengths^2` if given."""
    expect_shapes(returns=(returns, "B"), norms=(norms, "B"), ratio=(ratio, "B"), group=(group, "B"))
    weight = (norms * ratio) ** 2 / (1 if lengths is None else lengths.astype(np.float64) ** 2)
    return statistics.group_mean(returns, group, weight)
