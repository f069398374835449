"""The vote of a reply in majority voting."""

from __future__ import annotations

from collections.abc import Hashable

from envs.grading.declaration import find_declaration, number_in_phrase
from envs.grading.number import parse_number, strip_markup


def vote(reply: str) -> Hashable | None:
    """Return the answer that `reply` declares, for counting votes: its exact value, or its text if it is no number.

    Equal for replies that declare the same number in any notation, or the same text but for case, spaces and LaTeX
    markup. None if a reply declares nothing, or more than one thing.
    """
    kind, answer = find_declaration(reply)
    if kind in ("none", "unclear"):
        return None
    value = number_in_phrase(answer) if kind == "phrase" else parse_number(answer)
    return "".join(strip_markup(answer).rstrip(". ").split()).casefold() if value is None else value
