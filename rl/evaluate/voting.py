"""Votes: what an episode answers, and how often the most frequent of several answers is right (cons@k, maj@k)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import gymnasium
import numpy as np
from scipy import stats

from rl.evaluate.statistics import check_counts
from rl.records import Trajectory

Vote = Callable[[Trajectory], Hashable]


def ballot(env: gymnasium.Env) -> Vote:
    """How episodes of `env` vote: by its own `vote(reply)`, where it has one, on the last reply; else `final_reply`."""
    own = getattr(env.unwrapped, "vote", None)
    if own is None:
        return final_reply
    return lambda trajectory: own(trajectory.turns[-1].reply) if trajectory.turns else None


def final_reply(trajectory: Trajectory) -> str | None:
    """Vote with the text and tool calls of the last reply, spacing evened out; None for an empty one."""
    reply: Mapping[str, Any] = (trajectory.turns[-1].reply if trajectory.turns else None) or {}
    content = reply.get("content") or ""
    if not isinstance(content, str):
        content = " ".join(block.get("text", "") for block in content)
    calls = [f"{call['function']['name']} {call['function']['arguments']}" for call in reply.get("tool_calls") or ()]
    return " ".join(" ".join((content, *calls)).split()) or None


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
    check_counts(n, 0, k)
    counts = Counter(vote for vote in votes if vote is not None)
    right = Counter(vote for vote, won in zip(votes, success, strict=True) if won)
    sizes = tuple(sorted(counts.values()))
    chance = _plurality(sizes, n - sum(sizes), k)
    return min(1.0, sum(chance[size] * right[vote] / size for vote, size in counts.items()))


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
