"""The scores of SQuAD for short answers (Rajpurkar et al. 2016, arXiv:1606.05250): exact match and F1 of words."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")


def normalise(text: str) -> str:
    """Return a text in lower case, without punctuation and English articles, its words apart by one space.

    Articles stay in a text that has no other words, such as the answer "A".
    """
    words = text.lower().translate(_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", words).split() or words.split())


def exact_match(prediction: str, answers: Sequence[str]) -> bool:
    """Whether a prediction equals one of the accepted answers, both normalised; an empty one never does."""
    words = normalise(prediction)
    return bool(words) and any(words == normalise(answer) for answer in answers)


def f1(prediction: str, answers: Sequence[str]) -> float:
    """Return the largest F1, 0 to 1, of the prediction's words with those of an accepted answer."""
    words = Counter(normalise(prediction).split())
    return max((_f1(words, Counter(normalise(answer).split())) for answer in answers), default=0.0)


def _f1(words: Counter[str], gold: Counter[str]) -> float:
    common = (words & gold).total()
    return 2 * common / (words.total() + gold.total()) if common else 0.0
