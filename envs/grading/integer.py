"""Find the integer that a reply declares. A reply declares at most one, so that listing candidates never pays."""

from __future__ import annotations

import re

INTEGER = r"(?<![\w.])[-+\u2212]?(?:[0-9]{1,3}(?:,[0-9]{3}){1,5}|[0-9]{1,18})(?!\w|[.,][0-9])"
WORK = rf"{INTEGER}(?: ?(?:[-+*/\u2212\u00d7\u00f7]|\\[a-z]{{2,5}}) ?{INTEGER}){{1,9}} ?= ?"  # 84 + 59 =
MARKS = (
    re.compile(rf"(?:####|\\boxed\s*\{{|\banswer\s*(?:is\b|:))[\s:*$]*(?:{WORK}){{0,9}}({INTEGER})", re.IGNORECASE),
    re.compile(rf"=[\s:*$]*({INTEGER})"),
)
CHECK = re.compile(WORK + INTEGER)
CLAUSE_END = re.compile(r"[,;:.!?)](?=[\s*_$]|$)|\n")
TOKEN = re.compile(INTEGER)
PLAIN = re.compile(r"-?[0-9]{1,18}")
DIGIT = re.compile(r"\d")  # in any script


def declared_integer(reply: str) -> int | None:
    r"""Return the integer that `reply` gives as its final answer; None if it gives none or more than one.

    The last integer after `####`, `\boxed{`, "answer is" or "answer:" decides; without such a mark, the last one after
    `=`. No other number may follow it in its clause, and later only the same one; after the stronger marks, whole
    equations are skipped, because they check the answer. Without any mark, the reply must contain one number only, once
    or repeated, among any words. Integers are `132`, `-7` and `1,024`, but not `132.0`, `1e3`, `13x` or numbers of more
    than 18 digits.
    """
    if PLAIN.fullmatch(reply):
        return int(reply)
    for mark in MARKS:
        if matches := list(mark.finditer(reply)):
            value, rest = _parse(matches[-1][1]), reply[matches[-1].end() :]
            rest = CHECK.sub("", rest) if mark is MARKS[0] else rest
            clause = CLAUSE_END.split(rest, maxsplit=1)[0]
            return value if not DIGIT.search(clause) and _integers(rest) <= {value} else None
    values = _integers(reply)
    return values.pop() if len(values) == 1 else None


def _integers(text: str) -> set[int | None]:
    """All integers in `text`, plus None if it also has other numbers."""
    values: set[int | None] = {_parse(token) for token in TOKEN.findall(text)}
    return values | {None} if DIGIT.search(TOKEN.sub("", text)) else values


def _parse(token: str) -> int:
    return int(token.replace(",", "").replace("\u2212", "-"))
