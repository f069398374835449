"""Sums and means over the tokens of a trajectory, a turn or a group, written back to each token.

Legend: B rows, T token positions of a row. A trajectory may span several rows; all rows of one trajectory must be in
the same call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rl.methods.estimators.shapes import expect_shapes
from rl.methods.options import PartError

if TYPE_CHECKING:
    from torch import Tensor

    from rl.methods.inputs import Labels


def row_sum(x: Tensor, key: Tensor) -> Tensor:
    """Sum (B, 1) of `x` (B, T) over all tokens of the rows that have the same `key` (B,)."""
    expect_shapes(x=(x, "BT"), key=(key, "B"))
    return _sum_by_key(x.sum(-1), key)[:, None]


def turn_sum(x: Tensor, labels: Labels) -> Tensor:
    """Sum (B, T) of `x` (B, T) over the tokens of each token's turn, which `labels` tell apart.

    All tokens of a trajectory that were not sampled (turn -1) share one sum. A trajectory's rows must all be in the
    call.
    """
    expect_shapes(x=(x, "BT"), turn=(labels.turn, "BT"))
    width = int(labels.turn.max()) + 2
    key = labels.trajectory[:, None] * width + labels.turn + 1
    return _sum_by_key(x.flatten(), key.flatten()).view_as(x)


def mean_over_trajectory(x: Tensor, mask: Tensor, labels: Labels) -> Tensor:
    """Mean (B, 1) of `x` (B, T) over the sampled tokens of each row's trajectory; 0 where there are none.

    `mask` (B, T) is True where sampled. A trajectory may span several rows, which must all be in the call.
    """
    return row_sum(x * mask, labels.trajectory) / row_sum(mask.to(x.dtype), labels.trajectory).clamp(min=1)


def mean_over_turn(x: Tensor, mask: Tensor, labels: Labels) -> Tensor:
    """Mean (B, T) of `x` (B, T) over the sampled tokens of each token's turn; 0 where not sampled.

    `mask` (B, T) is True where sampled. A trajectory's rows must all be in the call.
    """
    mean = turn_sum(x * mask, labels) / turn_sum(mask.to(x.dtype), labels).clamp(min=1)
    return mean * mask


def least_before(x: Tensor, mask: Tensor, labels: Labels) -> Tensor:
    """The least `x` (B, T) of the sampled tokens before each in its trajectory (B, T); 0 for the first, and elsewhere.

    `mask` (B, T) is True where sampled. The rows of a trajectory follow one another in order.
    """
    bound = float("inf")
    lowest = x.masked_fill(~mask, bound).cummin(-1).values
    before = lowest.roll(1, -1)
    before[:, 0] = bound
    ends = lowest[:, -1].tolist()
    trajectory = labels.trajectory.tolist()
    for row in range(1, len(ends)):  # a trajectory whose history was rewritten has several rows
        if trajectory[row] == trajectory[row - 1]:
            before[row] = before[row].clamp(max=ends[row - 1])
            ends[row] = min(ends[row], ends[row - 1])
    return before.masked_fill(~mask | before.isinf(), 0.0)


def between(start: Tensor, end: Tensor, share: Tensor, kind: str) -> Tensor:
    """Log-probabilities (B, T) that lie a `share` of the way from `start` to `end`.

    `kind` is "log" (they are interpolated themselves), "linear" (their probabilities are), or else `start` is returned.
    """
    if kind == "linear":
        return ((1 - share) * start.exp() + share * end.exp()).clamp(min=1e-30).log()
    return start + share * (end - start) if kind == "log" else start


def mean_over_tail(x: Tensor, mask: Tensor, labels: Labels, count: int) -> Tensor:
    """Mean (B, 1) of `x` (B, T) over the last `count` sampled tokens of each row's trajectory; 0 where there are none.

    `mask` (B, T) is True where sampled. The rows of a trajectory follow one another in order.
    """
    from_end = mask.flip(-1).cumsum(-1).flip(-1)  # 1 at the last sampled token of the row
    totals, trajectory = mask.sum(-1).tolist(), labels.trajectory.tolist()
    later = [0] * len(totals)
    for row in reversed(range(len(totals) - 1)):
        if trajectory[row] == trajectory[row + 1]:
            later[row] = later[row + 1] + totals[row + 1]
    from_end = from_end + from_end.new_tensor(later)[:, None]
    return mean_over_trajectory(x, mask & (from_end <= count), labels)


def expect_one_value(x: Tensor, mask: Tensor, labels: Labels, part: str, what: str) -> None:
    """Raise `PartError` that begins with `part` unless `x` (B, T) is one number on the tokens of each trajectory."""
    spread = mean_over_trajectory(x.square(), mask, labels) - mean_over_trajectory(x, mask, labels).square()
    if (spread > 1e-4 * (1 + x.square().amax())).any():
        raise PartError(f"{part} reads one {what} per trajectory, but it varies within one: choose another credit part")


def _sum_by_key(x: Tensor, key: Tensor) -> Tensor:
    """`result[i] = sum of x[j] where key[j] == key[i]`, for 1-D `x` and `key`."""
    _, index = key.unique(return_inverse=True)
    return x.new_zeros(len(x)).index_add(0, index, x)[index]
