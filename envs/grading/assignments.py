"""Values that the end of a reply gives to letters: `x = 3, y = -2`, on one line or on one line each."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from envs.grading.doubts import is_taken_back, keeps_value, leads_into_doubt
from envs.grading.lines import final_lines
from envs.grading.number import strip_markup

_BULLET = re.compile(r"(?:[-*•]|[0-9]{1,2}[.)])\s+")
_ASSIGNMENT = re.compile(
    r"(?<![\w.)*/^+-])([a-z])\s*[=:]\s*(-?\s?[0-9]{1,18}(?:\s?/\s?[0-9]{1,18}|\.[0-9]{1,18})?)(?![\w/^*(=]|\s*[-+*/^(=]|\.[0-9])"
)
_BETWEEN = re.compile(r"[\s,;.&*$]*(?:and)?[\s,;&*$]*")
_WORD = re.compile(r"[^\W\d_]{2}")
_COPY = re.compile(r"[0-9=<>≠]|\bor\b")


def last_assignments(reply: str, names: Sequence[str]) -> str:
    """Return what the end of `reply` says of `names`, as in `x = 3, y = -2`, in the order of `names`.

    Its last line gives a number to each of them once, perhaps behind words: `So x = 3 and y = -2.` Or its last lines
    do, a name each, with words at most before the first. "" where another number or equation stands there, or words
    deny or doubt it.
    """
    values: dict[str, str] = {}
    for line in reversed(final_lines(reply)[-len(names) :]):
        found = _on_line(line)
        if not found or not values.keys().isdisjoint(found) or not found.keys() <= set(names):
            return ""
        values |= found
        if len(values) == len(names):
            return ", ".join(f"{name} = {values[name]}" for name in names)
        if _WORD.search(_ASSIGNMENT.sub("", line).replace("and", "")):
            return ""  # words only before the first value
    return ""


def _on_line(line: str) -> dict[str, str]:
    """The values of a line that says nothing else of numbers; {} for any other line."""
    bullet = _BULLET.match(line)
    plain = strip_markup(line[bullet.end() :] if bullet else line)
    matches = list(_ASSIGNMENT.finditer(plain))
    if not matches:
        return {}
    before, after = plain[: matches[0].start()], plain[matches[-1].end() :]
    between = [plain[one.end() : following.start()] for one, following in pairwise(matches)]
    is_plain = all(map(_BETWEEN.fullmatch, between)) and not _COPY.search(before + after)
    if (
        not is_plain
        or leads_into_doubt(before)
        or is_taken_back(after)
        or not keeps_value("", after)
        or len({one[1] for one in matches}) < len(matches)
    ):
        return {}
    return {one[1]: re.sub(r"\s", "", one[2]) for one in matches}
