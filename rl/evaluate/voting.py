"""How often the most frequent of several answers is right (cons@k, maj@k)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from functools import lru_cache

import numpy as np

from rl.evaluate.statistics import check_counts
from rl.methods.votes import Vote, final_reply, reply_text, vote_function

__all__ = ["Vote", "cons_at_k", "final_reply", "reply_text", "vote_function"]


def cons_at_k(votes: Sequence[Hashable], success: Sequence[bool], k: int) -> float:
    """Compute cons@k (maj@k), the probability that the most frequent answer among k samples is right.

    Self-consistency (Wang et al. 2022, arXiv:2203.11171). The value is the exact expectation over all C(n, k) subsets
    of the n samples, so it depends neither on their order nor on a seed. Answers that tie for first place share the
    subset equally. A vote of None (no answer) counts as one of the k but never wins; a subset of such votes only is
    wrong. If equal answers were graded differently, an answer is right to the share of its votes that succeeded.

    Args:
        votes: (n,) the answer of each sample, None for no answer.
        success: (n,) whether each sample succeeded.
        k: Number of samples that vote.

    Raises:
        ValueError: The lengths differ, or k is not in 1..n.
    """
    n = len(votes)
    if len(success) != n:
        raise ValueError(f"{n} votes but {len(success)} successes")
    check_counts(n, 0, k)
    counts = Counter(vote for vote in votes if vote is not None)
    successes = Counter(vote for vote, is_success in zip(votes, success, strict=True) if is_success)
    if k == 1:  # exactly pass@1 where every success has an answer
        return sum(successes[vote] for vote in counts) / n
    sizes = tuple(sorted(counts.values()))
    win_probability = _plurality(sizes, n - sum(sizes), k)
    return min(1.0, sum(win_probability[size] * successes[vote] / size for vote, size in counts.items()))


@lru_cache(maxsize=4096)
def _plurality(sizes: tuple[int, ...], blank: int, k: int) -> dict[int, float]:
    """The probability that one answer with a given number of votes wins a random k-subset; ties are shared.

    `sizes` are the numbers of votes of the answers, `blank` the number of votes without an answer. The result is by
    size. Each vote is drawn independently with probability k/n, and the result is conditioned on k draws: the subsets
    stay uniform, and all factors are binomial probabilities, which do not overflow for any number of votes.
    """
    n = sum(sizes) + blank
    if k == n:  # one subset
        most = max(sizes, default=0)
        return {size: 1 / sizes.count(most) if size == most else 0.0 for size in sizes}
    from scipy import stats  # takes half a second, which --help and single samples need not wait for

    pmf = {size: stats.binom.pmf(np.arange(size + 1), size, k / n) for size in {*sizes, blank}}
    probability = dict.fromkeys(sizes, 0.0)
    for size in probability:
        others = list(sizes)
        others.remove(size)
        for count in range(1, min(size, k) + 1):
            # ways[s, t]: s votes for the other answers, at most `count` for each and exactly `count` for t of them
            ways = np.zeros((k - count + 1, k // count))
            ways[0, 0] = 1.0
            for other in others:
                ways = _add_answer(ways, pmf[other], count)
            tie_shares = ways @ (1 / np.arange(1, ways.shape[1] + 1))
            blanks = pmf[blank][: tie_shares.size]
            probability[size] += pmf[size][count] * float(tie_shares[::-1][: blanks.size] @ blanks)
    total = float(stats.binom.pmf(k, n, k / n))
    return {size: value / total for size, value in probability.items()}


def _add_answer(ways: np.ndarray, pmf: np.ndarray, limit: int) -> np.ndarray:
    """`ways` of `_plurality` with one more answer, which gets at most `limit` votes; exactly `limit` is one more tie.

    `pmf[b]` is the probability that the answer gets b votes.
    """
    total = ways * pmf[0]
    rows = ways.shape[0]
    for b in range(1, min(limit, pmf.size, rows)):
        total[b:] += pmf[b] * ways[: rows - b]
    if limit < pmf.size and limit < rows:
        total[limit:, 1:] += pmf[limit] * ways[: rows - limit, :-1]
    return total
