"""Masked and grouped statistics on NumPy arrays. Equal values have a spread of exactly 0, whatever the rounding.

Legend: B values that are compared (trajectories, turns or tokens), each with a group label. Arrays under a mask may
have any shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rl.methods.estimators.shapes import expect_shapes
from rl.methods.options import Whiten

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


def mean(x: Floats, mask: Bools | None = None) -> float:
    """Mean of `x` where `mask` is True (None: everywhere); 0 without such a value. Others may be NaN."""
    values = _select(x, mask)
    return float(values[0] + (values - values[0]).mean()) if values.size else 0.0


def variance(x: Floats, mask: Bools | None = None) -> float:
    """Unbiased variance of `x` where `mask` is True (None: everywhere); 0 for fewer than two values."""
    values = _select(x, mask)
    return float(((values - mean(values)) ** 2).sum() / (values.size - 1)) if values.size > 1 else 0.0


def whiten(
    x: Floats, mask: Bools | None = None, *, eps: float = 1e-8, mode: Literal["exact", "verl"] = "exact"
) -> Floats:
    """`(x - mean) / sqrt(variance + eps)`, same shape as `x`, with the statistics of the values under `mask`.

    `mask` is True on the values that count, None for all of them. Fewer than two values are all 0: there is nothing to
    compare them with. `mode` says what becomes of equal values: `"exact"` gives 0; `"verl"` gives what verl's
    `masked_whiten` gives (`verl/utils/torch_functional.py`), whose means are divided by the count plus 1e-8. `n` values
    equal to `c` are then some `c * 1e-4 / n`, not 0.
    """
    if mode == "verl":
        return _whiten_like_verl(x, mask, eps)
    spread = variance(x, mask)
    if spread == 0.0:
        return np.zeros_like(x)
    return (x - mean(x, mask)) / np.sqrt(spread + eps)


def whiten_as(x: Floats, choice: Whiten) -> Floats:
    """`x` as the option `whiten` of a credit part asks, in the same shape.

    Unchanged for False, `whiten(x)` for True, `whiten(x, mode="verl")` for "verl".
    """
    return whiten(x, mode="verl" if choice == "verl" else "exact") if choice else x


def group_size(group: Ints) -> Ints:
    """For each member, how many members have the same label in `group` (B,): counts (B,)."""
    _, member = np.unique(group, return_inverse=True)
    return np.bincount(member)[member]


def group_mean(x: Floats, group: Ints, weights: Floats | None = None) -> Floats:
    """For each member, the mean of `x` (B,) over all members with its label in `group` (B,): means (B,).

    `weights` (B,) weigh the members; None weighs all equally. A group of weight 0 has its first member's value. Members
    that are bit-equal give that very value.
    """
    expect_shapes(x=(x, "B"), group=(group, "B"))
    _, first, member = np.unique(group, return_index=True, return_inverse=True)
    weights = np.ones_like(x) if weights is None else weights
    anchor = x[first]  # deviations from a member, not from 0: equal values then deviate by exactly 0
    total = np.bincount(member, weights * (x - anchor[member]))
    weight = np.bincount(member, weights)
    return (anchor + np.divide(total, weight, out=np.zeros(len(first)), where=weight > 0))[member]


def group_std(x: Floats, group: Ints) -> Floats:
    """For each member, the unbiased standard deviation of `x` (B,) over all with its label in `group` (B,).

    The result is (B,); 0 for a group of one.
    """
    expect_shapes(x=(x, "B"), group=(group, "B"))
    _, member = np.unique(group, return_inverse=True)
    squares = np.bincount(member, (x - group_mean(x, group)) ** 2)
    return np.sqrt(squares / np.maximum(np.bincount(member) - 1, 1))[member]


def group_median(x: Floats, group: Ints) -> Floats:
    """For each member, the median of `x` (B,) over all with its label in `group` (B,); the lower middle if even.

    The result is (B,).
    """
    expect_shapes(x=(x, "B"), group=(group, "B"))
    _, member, count = np.unique(group, return_inverse=True, return_counts=True)
    order = np.lexsort((x, member))
    start = np.cumsum(count) - count
    return x[order][start + (count - 1) // 2][member]


def group_extreme(x: Floats, group: Ints, *, highest: bool) -> Floats:
    """For each member, the highest or the lowest `x` (B,) of all with its label in `group` (B,): (B,)."""
    _, member = np.unique(group, return_inverse=True)
    extreme = np.full(int(member.max(initial=-1)) + 1, -np.inf if highest else np.inf)
    (np.maximum if highest else np.minimum).at(extreme, member, x)
    return extreme[member]


def _select(x: Floats, mask: Bools | None) -> Floats:
    if mask is not None and mask.shape != x.shape:
        raise ValueError(f"mask has shape {mask.shape}, expected {x.shape}")
    return x.ravel() if mask is None else x[mask]


def _whiten_like_verl(x: Floats, mask: Bools | None, eps: float) -> Floats:
    values = _select(x, mask)
    count = values.size
    if count < 2:  # where verl raises
        return np.zeros_like(x)
    average = values.sum() / (count + 1e-8)
    spread = ((values - average) ** 2).sum() / (count + 1e-8) * count / (count - 1)
    return (x - average) / np.sqrt(spread + eps)


def last_score(values: Sequence[float]) -> float:
    """How many population standard deviations the last of `values` lies above their mean; 0 for fewer than two."""
    if len(values) < 2:
        return 0.0
    return float((values[-1] - np.mean(values)) / (np.std(values) + 1e-9))
