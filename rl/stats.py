"""Statistics of an evaluation: chances at k samples, 95 % intervals and paired tests. Pure functions, no torch.

Tasks weigh the same everywhere: a figure is computed per task from its n samples, then averaged over tasks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from functools import lru_cache
from math import comb, nan, sqrt
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
    _check_counts(n, c, k)
    return (comb(n, k) - comb(n - c, k)) / comb(n, k)


def pass_hat_k(n: int, c: int, k: int) -> float:
    """Estimate without bias pass^k, the chance that all of k samples succeed (tau-bench, Yao et al. 2024).

    With c successes among n samples, `C(c, k) / C(n, k)`. Raises `ValueError` unless 1 <= k <= n and 0 <= c <= n.
    """
    _check_counts(n, c, k)
    return comb(c, k) / comb(n, k)


def cons_at_k(votes: Sequence[Hashable], success: Sequence[bool], k: int) -> float:
    """Compute cons@k (maj@k): the chance that the most frequent answer among k samples is right (Wang et al. 2022).

    The exact expectation over all C(n, k) subsets of the n votes, so it depends neither on their order nor on a seed.
    Answers that tie for first share the subset equally. A vote of `None` (no answer) counts as one of the k but never
    wins; a subset of such votes only is wrong. Where equal answers were graded differently, an answer is as right as
    the share of its votes that succeeded. Raises `ValueError` unless 1 <= k <= n and both sequences have length n.
    """
    n = len(votes)
    if len(success) != n:
        raise ValueError(f"{n} votes but {len(success)} successes")
    _check_counts(n, 0, k)
    counts = Counter(vote for vote in votes if vote is not None)
    right = Counter(vote for vote, won in zip(votes, success, strict=True) if won)
    sizes = tuple(sorted(counts.values()))
    chance = _plurality(sizes, n - sum(sizes), k)
    return min(1.0, sum(chance[size] * right[vote] / size for vote, size in counts.items()))


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


def _check_counts(n: int, c: int, k: int) -> None:
    if not 0 <= c <= n:
        raise ValueError(f"c={c}: successes of {n} samples lie in 0..{n}")
    if not 1 <= k <= n:
        raise ValueError(f"k={k}: {n} samples allow k in 1..{n}")


def _normal_quantile(level: float) -> float:
    return float(stats.norm.ppf((1 + level) / 2))


@lru_cache(maxsize=4096)
def _plurality(sizes: tuple[int, ...], blank: int, k: int) -> dict[int, float]:
    """By class size, the chance that one class of that size wins a k-subset of all votes; ties share it.

    Every vote is taken independently with chance k/n, and the result is conditioned on k being taken: the subsets
    stay uniform and all factors are binomial probabilities, which no number of votes overflows.
    """
    n = sum(sizes) + blank
    taken = {size: stats.binom.pmf(np.arange(size + 1), size, k / n) for size in {*sizes, blank}}
    chance = dict.fromkeys(sizes, 0.0)
    for size in chance:
        others = list(sizes)
        others.remove(size)
        for count in range(1, min(size, k) + 1):
            # ways[s, t]: s votes taken from the other classes, none of which has more than `count`; t of them tie
            ways = np.zeros((k - count + 1, k // count))
            ways[0, 0] = 1.0
            for other in others:
                ways = _take(ways, taken[other], count)
            rest = ways @ (1 / np.arange(1, ways.shape[1] + 1))
            blanks = taken[blank][: rest.size]
            chance[size] += taken[size][count] * float(rest[::-1][: blanks.size] @ blanks)
    whole = float(stats.binom.pmf(k, n, k / n))
    return {size: value / whole for size, value in chance.items()}


def _take(ways: np.ndarray, taken: np.ndarray, most: int) -> np.ndarray:
    """`ways` after one more class, of which at most `most` votes are taken; taking exactly `most` is one more tie."""
    after = ways * taken[0]
    rows = ways.shape[0]
    for b in range(1, min(most, taken.size, rows)):
        after[b:] += taken[b] * ways[: rows - b]
    if most < taken.size and most < rows:
        after[most:, 1:] += taken[most] * ways[: rows - most, :-1]
    return after
