"""Scores of short answers: SQuAD's exact match and F1 (Rajpurkar et al. 2016, arXiv:1606.05250), and IGPO's in tags."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_SPACED = str.maketrans(dict.fromkeys(string.punctuation, " "))
_TAG = re.compile(r"</?answer>")
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


def set_f1(prediction: str, answers: Sequence[str]) -> float:
    """Return IGPO's F1 (arXiv:2510.14967): `f1` of different words, articles among them; punctuation parts words."""
    words = set(_words(prediction))
    return max((_f1(Counter(words), Counter(set(_words(answer)))) for answer in answers), default=0.0)


def same_words(prediction: str, answers: Sequence[str]) -> bool:
    """Whether a prediction has the words of an accepted answer, as `set_f1` reads them, in order."""
    words = _words(prediction)
    return bool(words) and any(words == _words(answer) for answer in answers)


def tagged_answer(reply: str) -> str | None:
    """Return what stands in a reply's only pair of answer tags; None without it."""
    if [match[0] for match in _TAG.finditer(reply)] != ["<answer>", "</answer>"]:
        return None
    return reply.partition("<answer>")[2].partition("</answer>")[0].strip()


def _words(text: str) -> list[str]:
    return text.lower().translate(_SPACED).split()
