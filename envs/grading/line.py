r"""Subsets of the real line: inequalities as intervals, and unions of intervals and points in their one simplest form.

`x \geq 3` is `[3,\infty)`, `-2 < x \leq 7` is `(-2,7]`, and `x < 2 or x > 3` is a union.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from fractions import Fraction
from math import inf

from envs.grading.polynomial import Undecided

End = tuple[Fraction | float, int]  # a number, and 1 for the place just above it, 0 for the one just below
Span = tuple[End, End]
ABOVE, BELOW = "+oo", "-oo"  # how readers spell the infinities

_RELATION = re.compile(r"\s*(\\(?:leqslant|geqslant|leq|geq|le|ge|lt|gt)(?![A-Za-z])|<=|>=|[<>≤≥])\s*")
_OR = re.compile(r",?\s+or\s+")
_NAME = re.compile(r"[A-Za-z]|\\(?!infty|pi)[a-z]+")
_OPEN = ("<", ">", "\\lt", "\\gt")


def as_interval(text: str) -> str:
    r"""`text` with inequalities in one unknown as `x \in` and intervals; any other text as it is."""
    if not _RELATION.search(text):
        return text
    found = [_interval(part) for part in _OR.split(text)]
    names = {name for name, _ in found}
    if len(names) != 1 or "" in names:
        return text
    return f"{names.pop()} \\in " + " \\cup ".join(interval for _, interval in found)


def point(place: Fraction) -> Span:
    """A single number."""
    return (place, 0), (place, 1)


def between(brackets: str, low: object, high: object) -> Span:
    """The interval in `brackets`, such as "(]". Raises Undecided unless its ends are rational, or open and infinite."""
    ends: list[Fraction | float] = []
    for end, bracket in zip((low, high), brackets, strict=True):
        if isinstance(end, Fraction):
            ends.append(end)
        elif end in (ABOVE, BELOW) and bracket in "()":
            ends.append(inf if end == ABOVE else -inf)
        else:
            raise Undecided("an end that is not rational")
    if ends[0] >= ends[1]:
        raise Undecided("ends that do not rise")
    return (ends[0], int(brackets[0] == "(")), (ends[1], int(brackets[1] == "]"))


def joined(spans: Iterable[Span]) -> list[Span]:
    """The same points as ever fewer spans, in their order; empty ones are left out."""
    made: list[Span] = []
    for low, high in sorted(spans):
        if made and low <= made[-1][1]:
            made[-1] = made[-1][0], max(made[-1][1], high)
        elif low < high:
            made.append((low, high))
    return made


def _interval(part: str) -> tuple[str, str]:
    """The unknown of one inequality and the interval it lies in; "" for both where it is none."""
    words = _RELATION.split(part.strip())
    if any("," in word for word in words):
        return "", ""
    if len(words) == 3:
        left, relation, right = words
        if bool(_NAME.fullmatch(left)) == bool(_NAME.fullmatch(right)):
            return "", ""
        rising, named = _rises(relation), bool(_NAME.fullmatch(left))
        name, end = (left, right) if named else (right, left)
        if rising == named:
            return name, f"(-\\infty,{end}{']' if _is_closed(relation) else ')'}"
        return name, f"{'[' if _is_closed(relation) else '('}{end},\\infty)"
    if len(words) == 5 and _NAME.fullmatch(words[2]) and _rises(words[1]) == _rises(words[3]):
        low, first, name, second, high = words if _rises(words[1]) else words[::-1]
        return name, f"{'[' if _is_closed(first) else '('}{low},{high}{']' if _is_closed(second) else ')'}"
    return "", ""


def _rises(relation: str) -> bool:
    return relation.startswith(("<", "≤", "\\l"))


def _is_closed(relation: str) -> bool:
    return relation not in _OPEN
