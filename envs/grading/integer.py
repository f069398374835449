"""Find the integer that a reply declares. A reply declares at most one, so that listing candidates never pays."""

from __future__ import annotations

import re

from envs.grading.doubts import is_denied, is_taken_back, keeps_value
from envs.grading.lines import MAX_REPLY, answer_line, last_line

INTEGER = r"(?<![\w.])[-+\u2212]?(?:[0-9]{1,3}(?:,[0-9]{3}){1,5}|[0-9]{1,18})(?!\w|[.,][0-9])"
WORK = rf"{INTEGER}(?: ?(?:[-+*/\u2212\u00d7\u00f7]|\\[a-z]{{2,5}}) ?{INTEGER}){{1,9}} ?= ?"  # 84 + 59 =
DECLARED = re.compile(
    rf"(?:####|\\boxed\s*\{{|\banswer\s*(?:is\b|:))[\s:*$]*(?:{WORK}){{0,9}}({INTEGER})", re.IGNORECASE
)
EQUATION = re.compile(rf"=[\s:*$]*({INTEGER})")
STATEMENT = re.compile(rf"\b(?:is|equals|gives|makes)[\s:*$`]+({INTEGER})", re.IGNORECASE)
MARKS = (DECLARED, EQUATION, STATEMENT)  # from the strongest on
SPACED = re.compile(r"(?<=[0-9])(?:\{,\}|\\[,;:! ])(?=[0-9]{3}(?![0-9]))")  # 1{,}024 and 1\,024
CHECK = re.compile(WORK + INTEGER)
CALCULATION = re.compile(
    rf"\s*(?:[A-Za-z]\w{{0,9}}\s?=\s?)?{INTEGER}(?:\s?[-+*/\u2212\u00d7\u00f7]\s?{INTEGER}){{1,9}}(?:\s?=\s?{INTEGER})?[.,;]?\s*"
)
HEADING = re.compile(r"\s*[A-Za-z][A-Za-z ]{0,30}:\s*|\s*")
CLAUSE_END = re.compile(r"[,;:.!?)](?=[\s*_$]|$)|\n")
TOKEN = re.compile(INTEGER)
PLAIN = re.compile(r"-?[0-9]{1,18}")
REACH = 160  # characters beside an integer that are searched for doubts
WORD = re.compile(r"[A-Za-z]{2}")
BOX_WINDOW = 300  # characters at the end of a reply in which FAPO looks for a box
BOX = re.compile(r"\\boxed\{\s*(-?\d{1,9})\s*\}")
DIGIT = re.compile(r"\d")  # in any script


def last_boxed_integer(reply: str) -> int | None:
    r"""Return the last `\boxed{7}` in the last `BOX_WINDOW` characters of a reply, a whole number; None without one.

    So a judge states its verdict in FAPO (arXiv:2510.22543).
    """
    boxes = BOX.findall(reply[-BOX_WINDOW:])
    return int(boxes[-1]) if boxes else None


def declared_integer(reply: str) -> int | None:
    r"""Return the integer that `reply` gives as its final answer; None if it gives none or more than one.

    The last integer after `####`, `\boxed{`, "answer is" or "answer:" decides; without such a mark, the last one after
    `=`, else the only one after "is", "equals", "gives" or "makes". No other number may follow it in its clause, and
    later only the same one; after the strongest marks, whole equations are skipped, because they check the answer.
    Without any mark, the reply must contain one number only, once or repeated, among any words that do not deny or
    change it (`envs.grading.doubts`). Where the reply as a whole gives no integer, its last line may, if reasoning
    stands before it (`envs.grading.lines`) or nothing but calculations, `66 + 76`. Of a reply of more than
    `envs.grading.lines.MAX_REPLY` characters only the last line is read. Integers are `132`, `-7` and `1,024`, but not
    `132.0`, `1e3`, `13x` or numbers of more than 18 digits.
    """
    if PLAIN.fullmatch(reply):
        return int(reply)
    reply = SPACED.sub(",", reply)
    value = _declared_integer(reply) if len(reply) <= MAX_REPLY else None
    if value is None and (line := answer_line(reply) or _line_after_calculations(reply)):
        return int(line) if PLAIN.fullmatch(line) else _declared_integer(line)
    return value


def _declared_integer(text: str) -> int | None:
    for mark in MARKS:
        if matches := list(mark.finditer(text)):
            match = matches[-1]
            value, rest = _parse(match[1]), text[match.end() :]
            rest = CHECK.sub("", rest) if mark is DECLARED else rest
            before = text[max(0, match.start() - REACH) : match.start()]
            if is_denied(before + text[match.start() :][: len("answer")]):
                return None
            if mark is STATEMENT and (
                rest.lstrip("*`$ ").startswith("?")
                or not _is_only_statement(before, {_parse(one[1]) for one in matches})
            ):
                return None
            clause = CLAUSE_END.split(rest, maxsplit=1)[0]
            is_single = not DIGIT.search(clause) and _integers(rest) <= {value}
            return value if is_single and not is_taken_back(rest) else None
    values = _integers(text)
    return values.pop() if len(values) == 1 and _keeps_values(text) else None


def _is_only_statement(before: str, values: set[int]) -> bool:
    """Whether "is 7" after `before` is no alternative to another number, and all such statements give the same one."""
    return len(values) == 1 and keeps_value(" ".join(before.split()[-4:]), "")


def _line_after_calculations(reply: str) -> str:
    """Return the last line of a reply in which only calculations and headings stand before it; "" for another."""
    line = last_line(reply)
    before = (
        reply[:MAX_REPLY].rstrip("` \n\t\r").removesuffix(line).splitlines() if line and len(reply) <= MAX_REPLY else []
    )
    work = [one for one in before if not HEADING.fullmatch(one)]
    return line if work and all(map(CALCULATION.fullmatch, work)) else ""


def _keeps_values(text: str) -> bool:
    """Whether the words beside the integers in `text` leave their value; true for a text without words."""
    if not WORD.search(text):
        return True
    for match in TOKEN.finditer(text):
        before = text[max(0, match.start() - REACH) : match.start()]
        words_before, words_after = before.split()[-3:], text[match.end() : match.end() + REACH].split()[:3]
        if not keeps_value(" ".join(words_before), " ".join(words_after)) or is_denied(before):
            return False
        if is_taken_back(text[match.end() : match.end() + REACH]):
            return False
    return not is_taken_back(text[-REACH:])


def _integers(text: str) -> set[int | None]:
    """All integers in `text`, plus None if it also has other numbers."""
    values: set[int | None] = {_parse(token) for token in TOKEN.findall(text)}
    return values | {None} if DIGIT.search(TOKEN.sub("", text)) else values


def _parse(token: str) -> int:
    return int(token.replace(",", "").replace("\u2212", "-"))
