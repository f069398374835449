"""Compare answers of question answering by their words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

ARTICLES = frozenset(("a", "an", "the"))


def words(text: str) -> list[str]:
    """Split `text` into lower-case words without punctuation and articles, as the evaluation of SQuAD does."""
    return [word for word in re.sub(r"[^\w\s]|_", "", text.lower()).split() if word not in ARTICLES]


def bag_f1(prediction: str | None, references: Sequence[str]) -> float:
    """Return the F1 of the words of `prediction` and the best of `references`, from 0 to 1.

    Words are counted with multiplicity, in lower case, without punctuation and articles. 0 without references, and for
    a prediction of None, no answer.
    """
    prediction_words = Counter(words(prediction or ""))
    return max((_f1(prediction_words, Counter(words(text))) for text in references), default=0.0)


def same_words(prediction: str, references: Sequence[str]) -> bool:
    """Whether one of `references` is the same text but for case, punctuation and spaces."""
    return any(_split_words(prediction) == _split_words(text) for text in references)


def _f1(first: Counter[str], second: Counter[str]) -> float:
    overlap = (first & second).total()
    return 2 * overlap / (first.total() + second.total()) if overlap else 0.0


def _split_words(text: str) -> list[str]:
    return re.sub(r"[^\w\s]|_", " ", text.lower()).split()
