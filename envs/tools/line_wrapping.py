"""What stands around a command on its line: list markers, code spans, bold type, and labels such as `Action:`."""

from __future__ import annotations

import re

MAX_LAYERS = 4  # such as a label in a bold list item
_MARKS = ("**", "__", "`", "*")
_BULLET = re.compile(r"(?:[-*•+]|[0-9]{1,2}[.)])\s{1,9}")
_QUOTE = re.compile(r">{1,4}\s{0,9}(?=\S)")
_LABEL = re.compile(
    r"[*_]{0,2}(?:(?:my|the|next|final)\s{1,3}){0,2}(?:action|command|(?:(?:tool|function)[ _-]?)?call)"
    r"\s{0,3}(?:[*_]{1,2}\s{0,3}:|:[*_]{0,2})\s{0,9}",
    re.IGNORECASE,
)


def unwrap_line(line: str, *, quoted: bool = False) -> str:
    """Return the command on a line, without what stands around all of it.

    `read Bel` of "- read Bel", "1. `read Bel`", "**Action:** read Bel" and "Next action: **read Bel**". With `quoted`,
    also of "> read Bel".
    """
    line = line.strip()
    for _ in range(MAX_LAYERS):
        inner = _without_marks(line)
        for prefix in (_BULLET, _LABEL, *((_QUOTE,) if quoted else ())):
            if match := prefix.match(inner):
                inner = inner[match.end() :]
        if inner == line:
            break
        line = inner
    return line


def _without_marks(line: str) -> str:
    """The inside of a line that one code span or bold type takes up."""
    for mark in _MARKS:
        if line.startswith(mark) and line.endswith(mark) and len(line) > 2 * len(mark):
            inner = line[len(mark) : -len(mark)]
            if mark not in inner:
                return inner.strip()
    return line
