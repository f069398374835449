"""How near texts are to each other: word overlap of answers and queries, TF-IDF likeness of documents.

What a search environment reports of a turn, and what IGPO (arXiv:2510.14967) and StepSearch (arXiv:2505.15107) are paid
by. All scores lie between 0 and 1.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from math import log, sqrt

ARTICLES = frozenset(("a", "an", "the"))
ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)


def words(text: str) -> list[str]:
    """Lower-case words without punctuation and articles, as SQuAD compares answers."""
    return [word for word in re.sub(r"[^\w\s]|_", "", text.lower()).split() if word not in ARTICLES]


def bag_f1(prediction: str, golden: Sequence[str]) -> float:
    """The best harmonic mean of precision and recall over `words`, each counted as often as it stands there."""
    return max((_f1(Counter(words(prediction)), Counter(words(text))) for text in golden), default=0.0)


def set_f1(prediction: str, golden: Sequence[str]) -> float:
    """The same over sets of words, articles included; punctuation parts words."""
    return max((_f1(Counter(_set(prediction)), Counter(_set(text))) for text in golden), default=0.0)


def same_words(prediction: str, golden: Sequence[str]) -> bool:
    """Whether one of `golden` is the same but for case, punctuation and spaces."""
    return any(_parted(prediction) == _parted(text) for text in golden)


def tagged_answer(reply: str) -> str | None:
    """What stands in the last `<answer>` of a reply; None where there is none, or tags are left open."""
    found = ANSWER.findall(reply)
    balanced = all(reply.count(f"<{tag}>") == reply.count(f"</{tag}>") for tag in ("think", "answer"))
    return found[-1].strip() if found and balanced else None


def key_score(
    searches: Sequence[str],
    keys: Sequence[Sequence[str]],
    *,
    f1: Callable[[str, Sequence[str]], float] = bag_f1,
    overwrite: bool = False,
) -> float:
    """How well searches cover groups of key phrases: each counts for the group it fits best, averaged over groups.

    A group keeps its best search, or with `overwrite` its latest, as StepSearch ships it.
    """
    scores = [0.0] * len(keys)
    for search in searches:
        fits = [f1(search, key) for key in keys]
        if fits:
            best = fits.index(max(fits))
            scores[best] = fits[best] if overwrite else max(scores[best], fits[best])
    return sum(scores) / len(scores) if scores else 0.0


def likeness(document: str, golden: Sequence[str]) -> list[float]:
    """The cosine of `document` with each of `golden`, of TF-IDF vectors fitted to all of them; 0 for an empty one."""
    counts = [Counter(word for word in words(text) if len(word) > 1) for text in (document, *golden)]
    held = Counter(word for count in counts for word in count)
    vectors = [
        {word: times * (log((1 + len(counts)) / (1 + held[word])) + 1) for word, times in count.items()}
        for count in counts
    ]
    norms = [sqrt(sum(weight**2 for weight in vector.values())) for vector in vectors]
    return [
        sum(weight * other.get(word, 0.0) for word, weight in vectors[0].items()) / (norms[0] * norm)
        if norms[0] and norm
        else 0.0
        for other, norm in zip(vectors[1:], norms[1:], strict=True)
    ]


def _f1(one: Counter[str], other: Counter[str]) -> float:
    shared = (one & other).total()
    return 2 * shared / (one.total() + other.total()) if shared else 0.0


def _parted(text: str) -> list[str]:
    return re.sub(r"[^\w\s]|_", " ", text.lower()).split()


def _set(text: str) -> set[str]:
    return set(_parted(text))
