"""Compare answers of question answering by their words."""

from __future__ import annotations

import re
from collections.abc import Sequence


def same_words(prediction: str, references: Sequence[str]) -> bool:
    """Whether one of `references` is the same text but for case, punctuation and spaces."""
    return any(_split_words(prediction) == _split_words(text) for text in references)


def _split_words(text: str) -> list[str]:
    return re.sub(r"[^\w\s]|_", " ", text.lower()).split()
