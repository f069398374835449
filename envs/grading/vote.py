"""What a reply votes for where the answers of several replies are counted."""

from __future__ import annotations

from collections.abc import Hashable

from envs.grading.declared import declaration, phrase_number
from envs.grading.number import number, undress


def vote(reply: str) -> Hashable | None:
    """The declared answer (`envs.grading.declared`): its exact value, or its text where it is no number literal.

    Equal for replies that say the same number in any dress, or the same text but for case, spaces and LaTeX dress.
    None where nothing, or more than one thing, is declared.
    """
    kind, answer = declaration(reply)
    if kind in ("none", "unclear"):
        return None
    value = phrase_number(answer) if kind == "phrase" else number(answer)
    return "".join(undress(answer).rstrip(". ").split()).casefold() if value is None else value
