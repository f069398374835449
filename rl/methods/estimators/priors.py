"""What is expected of a task before its episodes are seen, and what becomes of that when they are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rl.methods.estimators.statistics import Floats


def beta_mean(a: float, b: float) -> float:
    """The mean of a Beta distribution; 0.5 where both numbers are 0."""
    return a / (a + b) if a + b > 0 else 0.5


def update_beta(a: float, b: float, value: float, *, keep: float) -> tuple[float, float]:
    """MSSR's numbers after an episode of return `value`, of which only whether it is above 0.5 counts."""
    success = float(value > 0.5)
    return keep * a + success, keep * b + 1 - success


def forgetting(
    kl: Sequence[float], *, low: float = 0.875, high: float = 0.96, target: float = 0.01, released: bool = False
) -> float:
    """MSSR's share that is kept, by the mean of the last divergences `kl` of the policy from update to update.

    Without any, the middle of `low` and `high`. The more the policy moves, the less is kept, down to `low` at `target`.
    `released` is the authors' rule, which keeps least where the policy stands still and beyond `target`.
    """
    if not len(kl):
        return (low + high) / 2
    mean = sum(kl) / len(kl)
    if released:
        return low if mean > target else low + mean / target * (high - low)
    return high - min(mean / target, 1.0) * (high - low)


def standardise(advantages: Floats) -> Floats:
    """`advantages` (B,) centred and over the population's standard deviation; fewer than two stay as they are."""
    if len(advantages) < 2:
        return advantages
    deviation = advantages - advantages.mean()
    return deviation / np.sqrt(max(float((deviation**2).mean()), 1e-6))


def fuse(mean: float, prior: float, count: int) -> float:
    """V_0.5's baseline: the `mean` of `count` rewards in -1 to 1, drawn towards `prior` as far as chance allows."""
    chance = 1 / count
    bias = _bias(mean, prior, count)
    weight = bias / (bias + chance)
    return weight * mean + (1 - weight) * prior


def fusion_errors(mean: float, prior: float, count: int) -> tuple[float, float]:
    """The mean squared errors of `fuse` with `count` rewards, and with one more if nothing else changes.

    V_0.5 plays another episode while the difference is above what an episode costs.
    """
    bias = _bias(mean, prior, count)
    now, then = (bias / (1 + n * bias) for n in (count, count + 1))
    return now, then


def blend(own: Sequence[float], everywhere: Sequence[float], *, smoothing: float) -> float:
    """The mean of a task's `own` values, and of all tasks' as if that had been seen `smoothing` times."""
    mean = sum(everywhere) / len(everywhere)
    return (sum(own) + smoothing * mean) / (len(own) + smoothing)


def _bias(mean: float, prior: float, count: int) -> float:
    """The square of how far `prior` is from `mean` beyond what chance explains."""
    return max(0.0, (mean - prior) ** 2 - 1 / count)
