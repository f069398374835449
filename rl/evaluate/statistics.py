"""Statistics of an evaluation: success of k samples, 95 % intervals and paired tests. Pure functions, no torch.

All tasks have the same weight: a metric is computed per task from its n samples, then averaged over tasks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb, inf, log2, nan, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

DRAWS = 9999  # resamples of a bootstrap or Monte-Carlo test; with the observed one 10000
CELLS = 2_000_000  # most resampled numbers held at a time, 16 MB
EXACT_FLIPS = 2**14  # most sign patterns that the permutation test enumerates


class Interval(NamedTuple):
    """The two ends of a confidence interval."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over tasks and its 95 % interval; all three are None if nothing was scored."""

    mean: float | None
    low: float | None
    high: float | None


NO_ESTIMATE = Estimate(None, None, None)


def pass_at_k(n: int, c: int, k: int) -> float:
    """Estimate pass@k, the probability that at least one of k samples succeeds.

    The unbiased estimator `1 - C(n-c, k) / C(n, k)` for c successes among n samples (Chen et al. 2021,
    arXiv:2107.03374, eq. 1), correctly rounded: exactly 0 for c = 0 and exactly 1 for n - c < k. Raises `ValueError`
    unless 1 <= k <= n and 0 <= c <= n.
    """
    check_counts(n, c, k)
    return (comb(n, k) - comb(n - c, k)) / comb(n, k)


def pass_hat_k(n: int, c: int, k: int) -> float:
    """Estimate pass^k, the probability that all of k samples succeed.

    The unbiased estimator `C(c, k) / C(n, k)` for c successes among n samples (tau-bench, Yao et al. 2024,
    arXiv:2406.12045). Raises `ValueError` unless 1 <= k <= n and 0 <= c <= n.
    """
    check_counts(n, c, k)
    return comb(c, k) / comb(n, k)


def auc_at_k(n: int, c: int, k: int) -> float:
    """Compute AUC@k: the area under pass@1, pass@2, pass@4, ..., pass@k over log2 k, divided by the width log2 k.

    The trapezoid rule at the powers of two below `k` and at `k` itself. AUC@1 is pass@1. The logarithmic axis keeps
    the area from saturating as the mean of pass@k over all k does. Raises `ValueError` as `pass_at_k` does.
    """
    check_counts(n, c, k)
    if k == 1:
        return pass_at_k(n, c, 1)
    counts = [2**e for e in range(k.bit_length()) if 2**e < k] + [k]
    y = [pass_at_k(n, c, count) for count in counts]
    x = [log2(count) for count in counts]
    return sum((x[i + 1] - x[i]) * (y[i] + y[i + 1]) / 2 for i in range(len(counts) - 1)) / x[-1]


def best_of_k(scores: Sequence[float], success: Sequence[bool], k: int) -> float:
    """Compute the probability that the sample with the best score among k samples succeeds.

    The exact mean over all C(n, k) subsets of the n samples; samples that tie for the best score share the subset
    equally. `scores` and `success` are (n,). Raises `ValueError` if their lengths differ or k is not in 1..n.
    """
    n = len(scores)
    if len(success) != n:
        raise ValueError(f"{n} scores but {len(success)} successes")
    check_counts(n, 0, k)
    probability, below = 0.0, 0  # `below` counts the samples with a lower score
    for score in sorted(set(scores)):
        ties = [is_success for other, is_success in zip(scores, success, strict=True) if other == score]
        subsets = comb(below + len(ties), k) - comb(below, k)  # whose best score is this one
        probability += subsets / comb(n, k) * sum(ties) / len(ties)
        below += len(ties)
    return probability


def wilson(successes: float, n: int, level: float = 0.95) -> Interval:
    """Return the score interval of a proportion (Wilson 1927); (0, 1) for n = 0.

    `successes` of `n` may be fractional; `level` is the probability to cover the true proportion. The interval lies
    inside [0, 1] and always has a width above 0.
    """
    if n == 0:
        return Interval(0.0, 1.0)
    z = _normal_quantile(level)
    share = successes / n
    centre = share + z * z / (2 * n)
    margin = z * sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    low, high = (centre - margin) / (1 + z * z / n), (centre + margin) / (1 + z * z / n)
    return Interval(0.0 if share == 0 else max(0.0, low), 1.0 if share == 1 else min(1.0, high))


def cluster_bootstrap(
    task_means: ArrayLike,
    rng: np.random.Generator,
    *,
    bounds: Interval | None = None,
    draws: int = DRAWS,
    level: float = 0.95,
) -> Interval:
    """Return the bias-corrected and accelerated bootstrap interval of a mean over tasks (BCa; Efron 1987).

    Tasks are the clusters: whole tasks are resampled, so the samples of one task may depend on each other. Like every
    bootstrap it knows only the spread in the data: do not trust it below a dozen tasks. If all means are equal there
    is no spread; the interval is then the mean plus and minus Wilson's upper bound on the share of unseen tasks that
    differ, or (nan, nan) without `bounds`.

    Args:
        task_means: (tasks,) the mean of each task's samples.
        rng: Draws the resamples.
        bounds: The range of possible means, to which the interval is clipped; None if unbounded.
        draws: Number of resamples.
        level: Confidence level.

    Raises:
        ValueError: There are no tasks.
    """
    means = np.asarray(task_means, dtype=float)
    if means.size == 0:
        raise ValueError("no tasks to resample")
    mean = float(means.mean())
    if means.size > 1 and np.ptp(means) > 1e-12 * max(1.0, abs(mean)):
        from scipy import stats  # takes half a second, which other intervals need not wait for

        batch = max(1, CELLS // means.size)
        fit = stats.bootstrap(
            (means,), np.mean, n_resamples=draws, batch=batch, confidence_level=level, method="BCa", rng=rng
        )
        low, high = float(fit.confidence_interval.low), float(fit.confidence_interval.high)
    else:
        margin = wilson(0, means.size, level).high if bounds else nan
        low, high = mean - margin, mean + margin
    return Interval(max(low, bounds.low), min(high, bounds.high)) if bounds else Interval(low, high)


def ratio_interval(numerators: ArrayLike, denominators: ArrayLike, level: float = 0.95) -> Interval:
    """Return Fieller's interval (1954) of a ratio of two sums over tasks, such as tokens per success.

    `numerators` and `denominators` are (tasks,) and not negative. `high` is inf if the sum of the denominators cannot
    be told from 0, as with few successes: the ratio then has no upper bound. The interval is (nan, nan) for fewer than
    two tasks, for denominators that sum to 0 and for tasks that all have the same ratio.
    """
    from scipy import special  # takes a tenth of a second, which --help need not wait for

    top, bottom = np.asarray(numerators, dtype=float), np.asarray(denominators, dtype=float)
    n = top.size
    if n < 2 or bottom.sum() <= 0:
        return Interval(nan, nan)
    factor = float(special.stdtrit(n - 1, (1 + level) / 2)) ** 2 / n
    (top_var, covariance), (_, bottom_var) = np.cov(top, bottom)
    # all r with (top - r bottom)^2 <= factor Var(top - r bottom): a quadratic in r
    a = bottom.mean() ** 2 - factor * bottom_var
    b = top.mean() * bottom.mean() - factor * covariance
    c = top.mean() ** 2 - factor * top_var
    half_root_sum = b + sqrt(max(0.0, b * b - a * c))
    low = max(0.0, float(c / half_root_sum)) if half_root_sum > 0 else 0.0
    high = float(half_root_sum / a) if a > 0 else inf
    return Interval(low, high) if low < high * (1 - 1e-9) else Interval(nan, nan)


def mean_interval(estimates: Sequence[float], intervals: Sequence[Interval]) -> Interval:
    """Return the interval of the mean of independent estimates from their own intervals, by MOVER (Zou, Donner 2008).

    It serves the mean of success rates over environments. Each environment keeps its own interval, however many tasks
    it has, also at success rates of 0 and 1, where a bootstrap sees no spread. Raises `ValueError` for no estimates or
    if the lengths differ.
    """
    if not estimates or len(estimates) != len(intervals):
        raise ValueError(f"{len(estimates)} estimates and {len(intervals)} intervals")
    n = len(estimates)
    mean = sum(estimates) / n
    pairs = list(zip(estimates, intervals, strict=True))
    down = sqrt(sum((estimate - interval.low) ** 2 for estimate, interval in pairs)) / n
    up = sqrt(sum((interval.high - estimate) ** 2 for estimate, interval in pairs)) / n
    return Interval(mean - down, mean + up)


def mcnemar(gains: int, losses: int) -> float:
    """Return the two-sided p-value of the exact McNemar test (1947) that gains and losses are equally likely.

    `gains` tasks flipped from failure to success and `losses` from success to failure, with one sample per task and
    side. Tasks that did not flip carry no information. 1 without flips.
    """
    from scipy import stats  # takes half a second, which --help need not wait for

    return float(stats.binomtest(gains, gains + losses).pvalue) if gains + losses else 1.0


def sign_flip(differences: Sequence[float], rng: np.random.Generator, *, draws: int = DRAWS) -> float:
    """Return the two-sided p-value of the paired permutation test of a mean difference of 0 (Fisher 1935).

    Under the null hypothesis each task's difference may as well have the opposite sign. Up to 16384 sign patterns are
    enumerated. Beyond that `draws` random patterns are drawn, and the observed one counts as another, so p is never 0
    (Phipson and Smyth 2010). `differences` is (tasks,); zeros carry no information. 1 without differences.
    """
    nonzero = np.asarray([d for d in differences if d], dtype=float)
    if nonzero.size == 0:
        return 1.0
    threshold = abs(nonzero.sum()) - 1e-9 * np.abs(nonzero).sum()  # sums that differ by rounding count as equal
    if 2**nonzero.size <= EXACT_FLIPS:
        signs = (np.arange(2**nonzero.size)[:, None] >> np.arange(nonzero.size)) & 1
        return float(np.mean(np.abs((1 - 2 * signs) @ nonzero) >= threshold))
    hits, rows = 0, max(1, CELLS // nonzero.size)
    for start in range(0, draws, rows):
        signs = rng.integers(0, 2, size=(min(rows, draws - start), nonzero.size), dtype=np.int8)
        hits += int(np.sum(np.abs((1 - 2 * signs) @ nonzero) >= threshold))
    return (hits + 1) / (draws + 1)


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjust the p-values of several tests by Holm's step-down method (1979) and return them in the same order.

    If no null hypothesis is false, the probability that any adjusted value is below 0.05 is at most 0.05, however the
    tests depend on each other.
    """
    result, highest = [0.0] * len(p_values), 0.0
    for rank, i in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[i]))
        result[i] = highest
    return result


def check_counts(n: int, c: int, k: int) -> None:
    """Raise `ValueError` unless 1 <= k <= n and 0 <= c <= n."""
    if not 0 <= c <= n:
        raise ValueError(f"c={c}: successes of {n} samples lie in 0..{n}")
    if not 1 <= k <= n:
        raise ValueError(f"k={k}: {n} samples allow k in 1..{n}")


def _normal_quantile(level: float) -> float:
    """The quantile of the standard normal that bounds the central `level` of its mass."""
    from scipy import special  # takes a tenth of a second, which --help need not wait for

    return float(special.ndtri((1 + level) / 2))
