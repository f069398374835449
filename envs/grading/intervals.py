r"""Subsets of the real line: inequalities as intervals, and unions of intervals and points in canonical form.

`x \geq 3` is `[3,\infty)`, `-2 < x \leq 7` is `(-2,7]`, and `x < 2 or x > 3` is a union.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from fractions import Fraction
from math import inf

from envs.grading.polynomial import Undecided

End = tuple[Fraction | float, int]  # a number, and 0 for the gap just below it or 1 for the gap just above it
Span = tuple[End, End]
INFINITY, MINUS_INFINITY = "+oo", "-oo"  # in the values that `envs.grading.exact` parses

_RELATION = re.compile(r"\s*(\\(?:leqslant|geqslant|leq|geq|le|ge|lt|gt)(?![A-Za-z])|<=|>=|[<>≤≥])\s*")
_OR = re.compile(r",?\s+or\s+")
_NAME = re.compile(r"[A-Za-z]|\\(?!infty|pi)[a-z]+")
_OPEN = ("<", ">", "\\lt", "\\gt")


def as_interval(text: str) -> str:
    r"""Rewrite inequalities in one unknown as intervals: `x < 2 or x \geq 3` as `x \in (-\infty,2) \cup [3,\infty)`.

    Returns any other text unchanged.
    """
    if not _RELATION.search(text):
        return text
    parts = [_parse_inequality(part) for part in _OR.split(text)]
    names = {name for name, _ in parts}
    if len(names) != 1 or "" in names:
        return text
    return f"{names.pop()} \\in " + " \\cup ".join(values for _, values in parts)


def point(number: Fraction) -> Span:
    """Return the span of a single number: its two ends, just below and just above it."""
    return (number, 0), (number, 1)


def interval(brackets: str, low: object, high: object) -> Span:
    """Return the span of the interval from `low` to `high` with `brackets`, one of "()", "[]", "(]" and "[)".

    A span is a pair of ends; each is a number and 0 for the gap just below it, 1 for that just above it. Raises
    Undecided unless each end is a Fraction, or `INFINITY` or `MINUS_INFINITY` and open, and `low` is below `high`.
    """
    ends: list[Fraction | float] = []
    for end, bracket in zip((low, high), brackets, strict=True):
        if isinstance(end, Fraction):
            ends.append(end)
        elif end in (INFINITY, MINUS_INFINITY) and bracket in "()":
            ends.append(inf if end == INFINITY else -inf)
        else:
            raise Undecided("an end that is not rational")
    if ends[0] >= ends[1]:
        raise Undecided("ends that do not rise")
    return (ends[0], int(brackets[0] == "(")), (ends[1], int(brackets[1] == "]"))


def merge(spans: Iterable[Span]) -> list[Span]:
    """Return the union of `spans` as ascending spans that neither overlap nor touch, without empty ones."""
    union: list[Span] = []
    for low, high in sorted(spans):
        if union and low <= union[-1][1]:
            union[-1] = union[-1][0], max(union[-1][1], high)
        elif low < high:
            union.append((low, high))
    return union


def _parse_inequality(part: str) -> tuple[str, str]:
    """The unknown of one inequality and the interval of its values; "" for both if `part` is no inequality."""
    words = _RELATION.split(part.strip())
    if any("," in word for word in words):
        return "", ""
    if len(words) == 3:
        left, relation, right = words
        if bool(_NAME.fullmatch(left)) == bool(_NAME.fullmatch(right)):
            return "", ""
        is_less, is_name_left = _is_less(relation), bool(_NAME.fullmatch(left))
        name, end = (left, right) if is_name_left else (right, left)
        if is_less == is_name_left:
            return name, f"(-\\infty,{end}{']' if _is_closed(relation) else ')'}"
        return name, f"{'[' if _is_closed(relation) else '('}{end},\\infty)"
    if len(words) == 5 and _NAME.fullmatch(words[2]) and _is_less(words[1]) == _is_less(words[3]):
        low, first, name, second, high = words if _is_less(words[1]) else words[::-1]
        return name, f"{'[' if _is_closed(first) else '('}{low},{high}{']' if _is_closed(second) else ')'}"
    return "", ""


def _is_less(relation: str) -> bool:
    return relation.startswith(("<", "≤", "\\l"))


def _is_closed(relation: str) -> bool:
    return relation not in _OPEN
