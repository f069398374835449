"""Sums over the tokens of a trajectory, a turn or a group, written back to each token. Tensors are (B, T).

A trajectory may span several rows; all rows of one trajectory must be in the same call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    from rl.methods.inputs import Labels


def rows(x: Tensor, key: Tensor) -> Tensor:
    """Per row, the sum of `x` over the tokens of all rows with the same `key` (B,). Shape (B, 1)."""
    return _sum(x.sum(-1), key)[:, None]


def turns(x: Tensor, labels: Labels) -> Tensor:
    """Per token, the sum of `x` over its turn. Tokens that were not sampled (turn -1) share one bin per trajectory."""
    width = int(labels.turn.max()) + 2
    key = labels.trajectory[:, None] * width + labels.turn + 1
    return _sum(x.flatten(), key.flatten()).view_as(x)


def mean_over_trajectory(x: Tensor, mask: Tensor, labels: Labels) -> Tensor:
    """Per row, the mean of `x` over the sampled tokens of its trajectory; 0 where there are none. Shape (B, 1)."""
    return rows(x * mask, labels.trajectory) / rows(mask.to(x.dtype), labels.trajectory).clamp(min=1)


def mean_over_turn(x: Tensor, mask: Tensor, labels: Labels) -> Tensor:
    """Per token, the mean of `x` over the sampled tokens of its turn; 0 where not sampled."""
    mean = turns(x * mask, labels) / turns(mask.to(x.dtype), labels).clamp(min=1)
    return mean * mask


def _sum(x: Tensor, key: Tensor) -> Tensor:
    """`out[i] = sum of x[j] where key[j] == key[i]`, for 1-D `x` and `key`."""
    _, index = key.unique(return_inverse=True)
    return x.new_zeros(len(x)).index_add(0, index, x)[index]
