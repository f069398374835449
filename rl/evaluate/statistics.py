"""Statistics of an evaluation: chances at k samples, 95 % intervals and paired tests. Pure functions, no torch.

Tasks weigh the same everywhere: a figure is computed per task from its n samples, then averaged over tasks.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import comb, inf, log2, nan, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

DRAWS = 9999  # resamples of a bootstrap or Monte-Carlo test; with the observed one 10000
CELLS = 2_000_000  # resampled numbers held at a time, 16 MB
EXACT_FLIPS = 2**14  # sign patterns up to which the permutation test counts them all


class Interval(NamedTuple):
    """The two ends of a confidence interval."""

    low: float
    high: float


def pass_at_k(n: int, c: int, k: int) -> float:
    """Estimate without bias the chance that one of k samples or more succeeds (Chen et al. 2021, eq. 1).

    With c successes among n samples, `1 - C(n-c, k) / C(n, k)`, correctly rounded: exactly 0 for c = 0 and exactly 1
    for n - c < k.
    Raises `ValueError` unless 1 <= k <= n and 0 <= c <= n.
    """
    check_counts(n, c, k)
    return (comb(n, k) - comb(n - c, k)) / comb(n, k)


def pass_hat_k(n: int, c: int, k: int) -> float:
    """Estimate without bias pass^k, the chance that all of k samples succeed (tau-bench, Yao et al. 2024).

    With c successes among n samples, `C(c, k) / C(n, k)`. Raises `ValueError` unless 1 <= k <= n and 0 <= c <= n.
    """
    check_counts(n, c, k)
    return comb(c, k) / comb(n, k)


def auc_at_k(n: int, c: int, k: int) -> float:
    """Compute AUC@k: the area under pass@1, pass@2, pass@4, ..., pass@k over log2 k, as a share of the whole width.

    The trapezoid rule on the powers of two up to `k`, and on `k` itself where it is none. AUC@1 is pass@1. Linear in
    the number of doublings, so that it does not saturate as the mean over all k does. Raises as `pass_at_k` does.
    """
    check_counts(n, c, k)
    if k == 1:
        return pass_at_k(n, c, 1)
    points = [2**e for e in range(k.bit_length()) if 2**e < k] + [k]
    height = [pass_at_k(n, c, point) for point in points]
    place = [log2(point) for point in points]
    return sum((place[i + 1] - place[i]) * (height[i] + height[i + 1]) / 2 for i in range(len(points) - 1)) / place[-1]


def best_of_k(scores: Sequence[float], success: Sequence[bool], k: int) -> float:
    """Compute the chance that the best-scored of k samples succeeds: the exact mean over all C(n, k) subsets.

    Samples that tie for the best score share the subset equally. Raises `ValueError` unless 1 <= k <= n and both
    sequences have length n.
    """
    n = len(scores)
    if len(success) != n:
        raise ValueError(f"{n} scores but {len(success)} successes")
    check_counts(n, 0, k)
    chance, below = 0.0, 0
    for score in sorted(set(scores)):
        tied = [won for other, won in zip(scores, success, strict=True) if other == score]
        best_here = comb(below + len(tied), k) - comb(below, k)  # subsets whose best score is this one
        chance += best_here / comb(n, k) * sum(tied) / len(tied)
        below += len(tied)
    return chance


def wilson(successes: float, n: int, level: float = 0.95) -> Interval:
    """Bound a proportion by its score interval (Wilson 1927). With n = 0 nothing is known: (0, 1).

    `successes` may be fractional. Inside [0, 1] always, and never of width 0.
    """
    if n == 0:
        return Interval(0.0, 1.0)
    z = _normal_quantile(level)
    share = successes / n
    centre = share + z * z / (2 * n)
    reach = z * sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    low, high = (centre - reach) / (1 + z * z / n), (centre + reach) / (1 + z * z / n)
    return Interval(0.0 if share == 0 else max(0.0, low), 1.0 if share == 1 else min(1.0, high))


def cluster_bootstrap(
    task_means: ArrayLike,
    rng: np.random.Generator,
    *,
    bounds: Interval | None = None,
    draws: int = DRAWS,
    level: float = 0.95,
) -> Interval:
    """Bound the mean over tasks by the bias-corrected and accelerated bootstrap (BCa; Efron 1987).

    Tasks are the clusters: they are redrawn whole, so the samples of one task may depend on each other as they like.
    `task_means` holds one mean per task. Like every bootstrap it knows only the spread it saw: distrust it below a
    dozen tasks. Equal means leave nothing to redraw: the answer is then the mean plus and minus the Wilson bound on the
    share of unseen tasks that may differ, kept inside `bounds`, and (nan, nan) where no bounds are known. Raises
    `ValueError` without tasks.
    """
    means = np.asarray(task_means, dtype=float)
    if means.size == 0:
        raise ValueError("no tasks to resample")
    mean = float(means.mean())
    if means.size > 1 and np.ptp(means) > 1e-12 * max(1.0, abs(mean)):
        batch = max(1, CELLS // means.size)
        fit = stats.bootstrap(
            (means,), np.mean, n_resamples=draws, batch=batch, confidence_level=level, method="BCa", rng=rng
        )
        low, high = float(fit.confidence_interval.low), float(fit.confidence_interval.high)
    else:
        reach = wilson(0, means.size, level).high if bounds else nan
        low, high = mean - reach, mean + reach
    return Interval(max(low, bounds.low), min(high, bounds.high)) if bounds else Interval(low, high)


def ratio_interval(tops: ArrayLike, bottoms: ArrayLike, level: float = 0.95) -> Interval:
    """Bound the ratio of two sums over tasks, such as tokens per solved task, by Fieller's interval (1954).

    `tops` and `bottoms` hold one number per task, none negative. `high` is inf where the data do not tell the lower
    sum from 0, as with few successes: a cost without a bound. (nan, nan) where nothing is known: for fewer than two
    tasks, a lower sum of 0, or tasks that all agree.
    """
    top, bottom = np.asarray(tops, dtype=float), np.asarray(bottoms, dtype=float)
    n = top.size
    if n < 2 or bottom.sum() <= 0:
        return Interval(nan, nan)
    reach = float(stats.t.ppf((1 + level) / 2, n - 1)) ** 2 / n
    (top_var, both), (_, bottom_var) = np.cov(top, bottom)
    # all r with (top - r bottom)^2 <= reach Var(top - r bottom): a quadratic in r
    a = bottom.mean() ** 2 - reach * bottom_var
    b = top.mean() * bottom.mean() - reach * both
    c = top.mean() ** 2 - reach * top_var
    sum_of_halves = b + sqrt(max(0.0, b * b - a * c))
    low = max(0.0, float(c / sum_of_halves)) if sum_of_halves > 0 else 0.0
    high = float(sum_of_halves / a) if a > 0 else inf
    return Interval(low, high) if low < high * (1 - 1e-9) else Interval(nan, nan)


def mean_interval(estimates: Sequence[float], intervals: Sequence[Interval]) -> Interval:
    """Bound the mean of independent estimates, each with its interval, by MOVER (Zou and Donner 2008).

    For the mean over environments of a success rate: each keeps its own interval, however many tasks it has, also at
    0 and 1, where resampling would see no spread. Raises `ValueError` for none or for lengths that differ.
    """
    if not estimates or len(estimates) != len(intervals):
        raise ValueError(f"{len(estimates)} estimates and {len(intervals)} intervals")
    n = len(estimates)
    mean = sum(estimates) / n
    pairs = list(zip(estimates, intervals, strict=True))
    down = sqrt(sum((estimate - interval.low) ** 2 for estimate, interval in pairs)) / n
    up = sqrt(sum((interval.high - estimate) ** 2 for estimate, interval in pairs)) / n
    return Interval(mean - down, mean + up)


def mcnemar(gained: int, lost: int) -> float:
    """Test `gained` against `lost` flips: the exact two-sided p-value (McNemar 1947, in its binomial form).

    For one pass/fail sample per task and side; tasks that did not flip carry no information. No flips: 1.
    """
    return float(stats.binomtest(gained, gained + lost).pvalue) if gained + lost else 1.0


def sign_flip(differences: Sequence[float], rng: np.random.Generator, *, draws: int = DRAWS) -> float:
    """Test a mean difference of 0 by paired permutation: the two-sided p-value (Fisher 1935).

    Under the null hypothesis each task's difference could as well have the other sign. All sign patterns are counted
    where there are at most 16384; otherwise `draws` random ones, the observed one among them, so that p is never 0
    (Phipson and Smyth 2010). Tasks without a difference carry no information. No differences: 1.
    """
    flips = np.asarray([d for d in differences if d], dtype=float)
    if flips.size == 0:
        return 1.0
    observed = abs(flips.sum()) - 1e-9 * np.abs(flips).sum()  # sums that differ by rounding count as equal
    if 2**flips.size <= EXACT_FLIPS:
        signs = (np.arange(2**flips.size)[:, None] >> np.arange(flips.size)) & 1
        return float(np.mean(np.abs((1 - 2 * signs) @ flips) >= observed))
    hits, rows = 0, max(1, CELLS // flips.size)
    for start in range(0, draws, rows):
        signs = rng.integers(0, 2, size=(min(rows, draws - start), flips.size), dtype=np.int8)
        hits += int(np.sum(np.abs((1 - 2 * signs) @ flips) >= observed))
    return (hits + 1) / (draws + 1)


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjust the p-values of several tests, in their order, so that any below 0.05 is rare if nothing differs.

    Holm's step-down method (1979): valid whatever the tests have to do with each other.
    """
    adjusted, highest = [0.0] * len(p_values), 0.0
    for rank, i in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[i]))
        adjusted[i] = highest
    return adjusted


def check_counts(n: int, c: int, k: int) -> None:
    """Raise `ValueError` unless 1 <= k <= n and 0 <= c <= n."""
    if not 0 <= c <= n:
        raise ValueError(f"c={c}: successes of {n} samples lie in 0..{n}")
    if not 1 <= k <= n:
        raise ValueError(f"k={k}: {n} samples allow k in 1..{n}")


def _normal_quantile(level: float) -> float:
    return float(stats.norm.ppf((1 + level) / 2))
