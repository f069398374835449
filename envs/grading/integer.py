"""Which integer a reply declares. One reply declares at most one, so listing candidates gains nothing."""

from __future__ import annotations

import re

INTEGER = r"(?<![\w.])[-+\u2212]?(?:[0-9]{1,3}(?:,[0-9]{3}){1,5}|[0-9]{1,18})(?!\w|[.,][0-9])"
WORK = rf"{INTEGER}(?: ?(?:[-+*/\u2212\u00d7\u00f7]|\\[a-z]{{2,5}}) ?{INTEGER}){{1,9}} ?= ?"  # 84 + 59 =
MARKS = (
    re.compile(rf"(?:####|\\boxed\s*\{{|\banswer\s*(?:is\b|:))[\s:*$]*(?:{WORK}){{0,9}}({INTEGER})", re.IGNORECASE),
    re.compile(rf"=[\s:*$]*({INTEGER})"),
)
CHECK = re.compile(WORK + INTEGER)
CLAUSE = re.compile(r"[,;:.!?)](?=[\s*_$]|$)|\n")  # where one ends
TOKEN = re.compile(INTEGER)
PLAIN = re.compile(r"-?[0-9]{1,18}")
DIGIT = re.compile(r"\d")  # of any script


def declared(reply: str) -> int | None:
    r"""The integer that `reply` gives as its final answer, or None where it gives none or more than one.

    The last integer marked by `####`, `\boxed{}`, "answer is" or "answer:" decides; without those the last one after
    `=`. No other number may follow it in its clause, and only the same one later; after the stronger marks, whole
    equations are passed over, for they check the answer. Without a mark, the reply must hold one number only, repeated
    or not, and any words around it. A number counts if it is an integer as a whole: `132`, `-7` and `1,024` do,
    `132.0`, `1e3`, `13x` and numbers of more than 18 digits do not.
    """
    if PLAIN.fullmatch(reply):
        return int(reply)
    for mark in MARKS:
        if found := list(mark.finditer(reply)):
            value, rest = _parsed(found[-1][1]), reply[found[-1].end() :]
            rest = CHECK.sub("", rest) if mark is MARKS[0] else rest
            clause = CLAUSE.split(rest, maxsplit=1)[0]
            return value if not DIGIT.search(clause) and _integers(rest) <= {value} else None
    values = _integers(reply)
    return values.pop() if len(values) == 1 else None


def _integers(text: str) -> set[int | None]:
    """All integers in `text`, and None if there are other numbers too."""
    values: set[int | None] = {_parsed(token) for token in TOKEN.findall(text)}
    return values | {None} if DIGIT.search(TOKEN.sub("", text)) else values


def _parsed(token: str) -> int:
    return int(token.replace(",", "").replace("\u2212", "-"))
