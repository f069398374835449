"""Statistics over all tokens of an optimiser step: budgets, covariances, bounds and effective sizes.

Legend: B rows, T token positions, N tokens that are counted.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rl.methods.estimators import segments

if TYPE_CHECKING:
    from torch import Tensor

    from rl.methods.inputs import Labels


def is_harmful(log_ratio: Tensor, adv: Tensor, mask: Tensor) -> Tensor:
    """Which sampled tokens have moved to where their advantage pushes them: a mask (B, T)."""
    return mask & (log_ratio * adv > 0)


def below_second_moment(log_ratio: Tensor, counted: Tensor, budget: float) -> Tensor:
    """The tokens of `counted` (B, T) without the largest |log-ratios|, so that the mean square is below `budget`.

    At least one token stays: the one with the smallest.
    """
    squares = log_ratio[counted].square()
    if not len(squares):
        return counted
    ascending, order = squares.sort()
    means = ascending.cumsum(0) / ascending.new_ones(len(ascending)).cumsum(0)
    count = max(1, int((means < budget).sum()))  # means of an ascending sequence ascend too
    flags = counted.new_zeros(len(squares))
    flags[order[:count]] = True
    return counted.masked_scatter(counted, flags)


def second_moment_cap(log_ratio: Tensor, budget: float) -> float:
    """The cap on |log-ratio| (N,) with which the mean of the capped squares is at most `budget`.

    It is the largest of the |log-ratios| themselves that keeps to the budget; 0 if none does, and that of a ratio of
    100,000 if no cap is needed.
    """
    squares = log_ratio.square()
    if not len(squares) or squares.mean() <= budget:
        return math.log(1e5)
    ascending = squares.sort().values
    rest = len(ascending) - ascending.new_ones(len(ascending)).cumsum(0)
    means = (ascending.cumsum(0) + rest * ascending) / len(ascending)
    within = ascending[means <= budget]
    return float(within[-1].sqrt()) if len(within) else 0.0


def balanced_bounds(
    ratio: Tensor,
    adv: Tensor,
    *,
    target: float,
    low: tuple[float, float],
    high: tuple[float, float],
    stride: float,
    surviving: bool,
) -> tuple[float, float]:
    """BAPO's bounds of the ratio: raised from their start to their end until positive tokens contribute enough.

    `ratio` and `adv` are (N,). See `rl.methods.parts.step.balanced_clip`.
    """

    def balance(lower: float, upper: float) -> float:
        positive, negative = adv >= 0, adv < 0
        if surviving:
            gain = (adv * ratio)[positive & (ratio <= upper)].sum()
            loss = (adv * ratio)[negative & (ratio >= lower)].abs().sum()
        else:
            gain = (adv * ratio.clamp(max=upper))[positive].sum()
            loss = (adv * ratio.clamp(min=lower))[negative].abs().sum()
        return float((gain / (loss + 1e-8)).detach()) if loss > 0 else float("inf")

    lower, upper = low[0], high[0]
    while balance(lower, upper) < target and lower < low[1] - 1e-9:
        lower = min(lower + stride, low[1])
    while balance(lower, upper) < target and upper < high[1] - 1e-9:
        upper = min(upper + stride, high[1])
    return lower, upper


def covariance(adv: Tensor, logp: Tensor, mask: Tensor) -> Tensor:
    """`(A - mean A)(logp - mean logp)` of each token (B, T), with the means over those under `mask`."""
    return (adv - adv[mask].mean()) * (logp - logp[mask].mean()) if mask.any() else logp.new_zeros(logp.shape)


def standardised(x: Tensor, mask: Tensor) -> Tensor:
    """`x` (B, T) less its mean over the tokens under `mask`, over their standard deviation; 0 for fewer than two."""
    values = x[mask]
    if len(values) < 2:
        return x.new_zeros(x.shape)
    return (x - values.mean()) / (values.std() + 1e-8)


def largest(value: Tensor, mask: Tensor, count: int) -> Tensor:
    """The `count` tokens under `mask` with the largest `value`, as a mask (B, T)."""
    flags = mask.new_zeros(int(mask.sum()))
    flags[value[mask].argsort(descending=True, stable=True)[:count]] = True
    return mask.masked_scatter(mask, flags)


def at_least(value: Tensor, mask: Tensor, share: float) -> Tensor:
    """The `share` of tokens under `mask` with the largest `value`, at least one; all with the threshold's value."""
    values = value[mask]
    if not len(values):
        return mask
    count = max(1, round(share * len(values)))
    threshold = values.sort(descending=True).values[count - 1]
    return mask & (value >= threshold)


def spread_evenly(mask: Tensor, count: int) -> Tensor:
    """The tokens in the middle of `count` equal parts of those under `mask`, or all if these are fewer, (B, T)."""
    total = int(mask.sum())
    flags, size = mask.new_zeros(total), min(count, total)
    flags[[(2 * part + 1) * total // (2 * size) for part in range(size)]] = True
    return mask.masked_scatter(mask, flags)


def effective_share(log_ratio: Tensor, labels: Labels) -> Tensor:
    """`(sum w)^2 / (B sum w^2)` of the weights `w` of B trajectories: 1 where all are equal, 1 / B where one is all.

    `log_ratio` (B, T) is 0 where not sampled; the log of a weight is its sum over the trajectory.
    """
    sums = segments.row_sum(log_ratio, labels.trajectory)[:, 0]
    _, first = labels.trajectory.unique(return_inverse=True)
    per_trajectory = sums.new_zeros(int(first.max()) + 1).index_copy(0, first, sums)
    total = 2 * per_trajectory.logsumexp(0) - (2 * per_trajectory).logsumexp(0)
    return total.exp() / len(per_trajectory)
