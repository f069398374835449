"""Masked and grouped statistics on NumPy arrays. Equal values have a spread of exactly 0, whatever the rounding."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


def mean(x: Floats, mask: Bools | None = None) -> float:
    """Mean of `x` where `mask`; 0 where nothing is selected. What the mask hides may be NaN."""
    chosen = _chosen(x, mask)
    return float(chosen[0] + (chosen - chosen[0]).mean()) if chosen.size else 0.0


def variance(x: Floats, mask: Bools | None = None) -> float:
    """Unbiased variance of `x` where `mask`; 0 for fewer than two values."""
    chosen = _chosen(x, mask)
    return float(((chosen - mean(chosen)) ** 2).sum() / (chosen.size - 1)) if chosen.size > 1 else 0.0


def whiten(x: Floats, mask: Bools | None = None, *, eps: float = 1e-8) -> Floats:
    """`(x - mean) / sqrt(variance + eps)` with the statistics of the masked values, applied to all of `x`.

    Fewer than two values, or values that are all equal, have nothing to be compared with: the result is 0.
    """
    spread = variance(x, mask)
    if spread == 0.0:
        return np.zeros_like(x)
    return (x - mean(x, mask)) / np.sqrt(spread + eps)


def group_size(group: Ints) -> Ints:
    """Per member, how many members its group has."""
    _, member = np.unique(group, return_inverse=True)
    return np.bincount(member)[member]


def group_mean(x: Floats, group: Ints, weights: Floats | None = None) -> Floats:
    """Per member, the (weighted) mean of its group. Bit-equal values give exactly that value."""
    _, first, member = np.unique(group, return_index=True, return_inverse=True)
    weights = np.ones_like(x) if weights is None else weights
    anchor = x[first]  # deviations from a member, not from 0: equal values then deviate by exactly 0
    total = np.bincount(member, weights * (x - anchor[member]))
    weight = np.bincount(member, weights)
    return (anchor + np.divide(total, weight, out=np.zeros(len(first)), where=weight > 0))[member]


def group_std(x: Floats, group: Ints) -> Floats:
    """Per member, the unbiased standard deviation of its group; 0 for a group of one."""
    _, member = np.unique(group, return_inverse=True)
    squares = np.bincount(member, (x - group_mean(x, group)) ** 2)
    return np.sqrt(squares / np.maximum(np.bincount(member) - 1, 1))[member]


def _chosen(x: Floats, mask: Bools | None) -> Floats:
    return x.ravel() if mask is None else x[mask]
