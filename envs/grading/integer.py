"""Which integer a reply declares. One reply declares at most one, so listing candidates gains nothing."""

from __future__ import annotations

import re

INTEGER = r"(?<![\w.])[-+\u2212]?(?:[0-9]{1,3}(?:,[0-9]{3}){1,5}|[0-9]{1,18})(?!\w|[.,][0-9])"
MARK = re.compile(rf"(?:####|\\boxed\s*\{{|\banswer\s*(?:is\b|:)|=)[\s:*$]*({INTEGER})", re.IGNORECASE)
TOKEN = re.compile(INTEGER)
DIGIT = re.compile(r"\d")  # of any script


def declared(reply: str) -> int | None:
    r"""The integer that `reply` gives as its final answer, or None where it gives none or more than one.

    The last integer marked by `####`, `\boxed{}`, "answer is", "answer:" or `=` decides; no other number may follow
    it. Without a mark, the reply must hold one number only, repeated or not, and any words around it. A number counts
    if it is an integer as a whole: `132`, `-7` and `1,024` do, `132.0`, `1e3`, `13x` and numbers of more than 18
    digits do not.
    """
    marks = list(MARK.finditer(reply))
    if marks:
        return None if DIGIT.search(reply, marks[-1].end()) else _parsed(marks[-1][1])
    values = {_parsed(token) for token in TOKEN.findall(reply)}
    if len(values) != 1 or DIGIT.search(TOKEN.sub("", reply)):
        return None
    return values.pop()


def _parsed(token: str) -> int:
    return int(token.replace(",", "").replace("\u2212", "-"))
