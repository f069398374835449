"""BM25 ranking over a few short documents: the index is built in microseconds and needs no dependency."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from math import log

_WORD = re.compile(r"\w+")


def words(text: str) -> list[str]:
    """Split `text` into its lower-case words."""
    return _WORD.findall(text.lower())


class BM25:
    """Ranks documents by a query's words (Robertson and Zaragoza 2009, with Lucene's idf, which is never negative).

    The score of document `d` is the sum, over the query's words `w`, of

        log(1 + (N - n + 1/2) / (n + 1/2)) * f (k1 + 1) / (f + k1 (1 - b + b |d| / mean |d|))

    where `f` is how often `d` has `w`, `n` how many of the `N` documents have it, and `|d|` the words of `d`.
    """

    def __init__(self, documents: Sequence[str], *, k1: float = 1.5, b: float = 0.75) -> None:
        counts = [Counter(words(document)) for document in documents]
        lengths = [count.total() for count in counts]
        mean = sum(lengths) / len(lengths) if any(lengths) else 1.0
        frequency = Counter(word for count in counts for word in count)  # documents that have the word
        self._weights: dict[str, list[tuple[int, float]]] = {word: [] for word in frequency}
        for i, (count, length) in enumerate(zip(counts, lengths, strict=True)):
            saturation = k1 * (1 - b + b * length / mean)
            for word, times in count.items():
                idf = log(1 + (len(counts) - frequency[word] + 0.5) / (frequency[word] + 0.5))
                self._weights[word].append((i, idf * times * (k1 + 1) / (times + saturation)))

    def scores(self, query: str) -> dict[int, float]:
        """Map the index of each document that has a word of the query to its score."""
        scores: dict[int, float] = {}
        for word in words(query):
            for i, weight in self._weights.get(word, ()):
                scores[i] = scores.get(i, 0.0) + weight
        return scores

    def best(self, query: str, limit: int) -> list[int]:
        """Return the indices of at most `limit` matching documents, best first; of equal scores the earlier first."""
        scores = self.scores(query)
        return sorted(scores, key=lambda i: (-scores[i], i))[:limit]
