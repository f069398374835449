"""Find the integer that a reply declares. A reply declares at most one, so that listing candidates never pays."""

from __future__ import annotations

import re
from collections.abc import Sequence

from envs.grading.doubts import (
    CORRECTIONS,
    GUESSES,
    calls_next_wrong,
    denies_next,
    denies_next_line,
    is_denied,
    is_taken_back,
    keeps_value,
)
from envs.grading.lines import MAX_REPLY, answer_line, continues, is_sentence, last_line, without_check
from envs.grading.marks import json_answer, value_in_context
from envs.grading.spelled import parse_spelled

INTEGER = r"(?<![\w.])[-+\u2212]?(?:[0-9]{1,3}(?:,[0-9]{3}){1,5}|[0-9]{1,18})(?!\w|[.,][0-9])"
WORK = rf"{INTEGER}(?: ?(?:[-+*/\u2212\u00d7\u00f7\u00b7]|\\[a-z]{{2,5}}) ?{INTEGER}){{1,9}} ?= ?"  # 84 + 59 =
DECLARED = re.compile(
    rf"(?P<mark>####|\\boxed\s*\{{|<answer>|\banswer\s*(?:is\b|:))[\s:*$]*(?:{WORK}){{0,9}}(?P<value>{INTEGER})",
    re.IGNORECASE,
)
EQUATION = re.compile(rf"=[\s:*$]*(?P<value>{INTEGER})")
STATEMENT = re.compile(rf"\b(?:is|equals|gives|makes)[\s:*$`]+(?P<value>{INTEGER})", re.IGNORECASE)
MARKS = (DECLARED, EQUATION, STATEMENT)  # from the strongest on
SPACED = re.compile(r"(?<=[0-9])(?:\{,\}|\\[,;:! ])(?=[0-9]{3}(?![0-9]))")  # 1{,}024 and 1\,024
CHECK = re.compile(WORK + INTEGER)
CALCULATED = re.compile(rf"(?P<work>{WORK})[\s*$]*(?P<value>{INTEGER})")
CLOSING = re.compile(r"\s*(?:\}|</answer>)", re.IGNORECASE)
HEDGE = re.compile(rf"[ *_$`]*(?:or\b|{GUESSES}(?=[\s:*$(]*-?[0-9]|[.\s]*$))", re.IGNORECASE)
CORRECTION = re.compile(  # between two values
    rf"\b(?:{CORRECTIONS}|but|nope|wrong|incorrect|mistaken?|error|correct(?:ion|ed|ing)|rather|neither|none|"
    r"(?:re|double)-?check(?:ed|ing)?|check\s+(?:again|it)|scratch\s+that|redo)\b|n['’]t\b",
    re.IGNORECASE,
)
GUESS = re.compile(rf"\b{GUESSES}(?:\s+(?:the|it\s+is|it['’]s|is))*[\s:*$(]*$", re.IGNORECASE)  # before a mark
ASKED = re.compile(r"[ *`$]*\?[ *`$]*(?:\n|$)")  # behind a mark
FINAL = re.compile(r"\bfinal\b[^\n]{0,40}$", re.IGNORECASE)  # before a mark
IN_WORDS = re.compile(
    rf"({INTEGER})([*_`$]{{0,4}})[ ]?\(([A-Za-z][A-Za-z -]{{1,120}})\)"
)  # 143 (one hundred forty-three)
CALCULATION = re.compile(
    rf"\s*(?:[A-Za-z]\w{{0,9}}\s?=\s?)?{INTEGER}(?:\s?[-+*/\u2212\u00d7\u00f7]\s?{INTEGER}){{1,9}}(?:\s?=\s?{INTEGER})?[.,;]?\s*"
)
HEADING = re.compile(r"\s*[A-Za-z][A-Za-z ]{0,30}:\s*|\s*")
CLAUSE_END = re.compile(r"[,;:.!?)](?=[\s*_$]|$)|\n")
TOKEN = re.compile(INTEGER)
SIDE = "0123456789 .,+-*/\u2212\u00d7\u00f7=()$"  # the characters of the left side of an equation
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

    The integer after `####`, `\boxed{`, `<answer>`, "answer is" or "answer:" decides, with the sign before the mark
    (`envs.grading.marks`); without such a mark, the last one after `=`, else the only one after "is", "equals", "gives"
    or "makes". Several marks of the strongest kind, and several results of one calculation, must agree, except for a
    value that the reply takes back before the next ("Wait", "but", "that is wrong") or reasons on from in a line of
    words; after `####` or "final" only marks with these count. No other number may follow the last one in its clause,
    and later only the same one; after the strongest marks, whole equations are skipped, because they check the answer,
    and so is a check of true equations on lines of its own.
    Without any mark, the reply must contain one number only, once or repeated, among any words that do not deny or
    change it (`envs.grading.doubts`); it may be in words behind it, `143 (one hundred forty-three)`. Of a JSON object
    the key `answer` counts. Where the reply as a whole gives no integer, its last line may, if reasoning
    stands before it (`envs.grading.lines`) or nothing but calculations, `66 + 76`. Of a reply of more than
    `envs.grading.lines.MAX_REPLY` characters only the last line is read. Integers are `132`, `-7` and `1,024`, but not
    `132.0`, `1e3`, `13x` or numbers of more than 18 digits.
    """
    if PLAIN.fullmatch(reply):
        return int(reply)
    reply = SPACED.sub(",", reply)
    if "{" in reply[:20] and (text := json_answer(reply)) is not None:
        return _declared_integer(text) if text else None
    if "(" in reply and len(reply) <= MAX_REPLY:
        reply = IN_WORDS.sub(_without_words, reply)
    reply = without_check(reply)
    value = _declared_integer(reply) if len(reply) <= MAX_REPLY else None
    if value is None and (line := answer_line(reply) or _line_after_calculations(reply)):
        if len(reply) <= MAX_REPLY and any(mark.search(line) for mark in MARKS[:2] if _decides(mark, reply)):
            return None  # its mark, read with all of the reply, gives no integer
        return int(line) if PLAIN.fullmatch(line) else _declared_integer(line)
    return value


def _decides(mark: re.Pattern[str], text: str) -> bool:
    """Whether `mark` is the strongest kind of mark in `text`."""
    return next((one for one in MARKS if one.search(text)), None) is mark


def _declared_integer(text: str) -> int | None:
    for mark in MARKS:
        if matches := list(mark.finditer(text)):
            match = matches[-1]
            if _is_denied(match):
                return None
            value: int | None = _value(match)
            rest = text[match.end() :]
            before = text[max(0, match.start() - REACH) : match.start()]
            if mark is DECLARED:
                value, rest = _marked_value(match, before), CHECK.sub("", rest[_closing(match) :])
            elif mark is EQUATION:
                matches = _results_of_last(text)
            elif rest.lstrip("*`$ ").startswith("?") or not _is_only_statement(before, set(map(_value, matches))):
                return None
            if value is None or HEDGE.match(rest) or _has_rival(text, matches):
                return None
            clause = CLAUSE_END.split(rest, maxsplit=1)[0]
            is_single = not DIGIT.search(clause) and _integers(rest) <= {value}
            return value if is_single and not is_taken_back(rest) else None
    values = _integers(text)
    return values.pop() if len(values) == 1 and _keeps_values(text) else None


def _is_denied(match: re.Match[str]) -> bool:
    """Whether the words before a value deny it, or say of a calculation that it is wrong."""
    text, start = match.string, match.start()
    before, word = text[max(0, start - REACH) : start], "" if match[0][0] in "\\<#" else match[0][: len("answer")]
    lead = before.rstrip(SIDE) if match.re is EQUATION else ""
    return (lead.endswith(":") and calls_next_wrong(lead)) or is_denied(before + word)


def _marked_value(match: re.Match[str], before: str) -> int | None:
    """The integer of a match with the sign before its mark; None if the mark is doubted or part of an expression."""
    end = match.end() + _closing(match)
    rest = match.string[end : end + REACH]
    if GUESS.search(before[-40:]) or ASKED.match(rest):
        return None
    if match["mark"][0] not in "\\<":
        return None if denies_next_line(match.string, match.start()) else _value(match)
    if denies_next(before):
        return None
    text = value_in_context(before, str(_value(match)), rest if end > match.end() else "")
    return int(text) if text else None


def _closing(match: re.Match[str]) -> int:
    """The length of what closes a mark behind its value, a brace or a tag."""
    closing = CLOSING.match(match.string, match.end())
    return closing.end() - match.end() if closing else 0


def _has_rival(text: str, matches: Sequence[re.Match[str]]) -> bool:
    """Whether a value before the last one differs from it and is neither doubted, taken back nor an earlier step."""
    is_final = _is_final(matches[-1]) if len(matches) > 1 else False
    for match, following in zip(matches[-2::-1], matches[:0:-1], strict=True):
        gap = text[match.end() + _closing(match) : following.start()]
        if CORRECTION.search(gap) or any(is_sentence(line) and not continues(line) for line in gap.split("\n")[1:-1]):
            return False
        if _value(match) == _value(matches[-1]) or gap.startswith("?") or (is_final and not _is_final(match)):
            continue
        before = text[max(0, match.start() - REACH) : match.start()]
        if not (GUESS.search(before[-40:]) or _is_denied(match) or denies_next(before)):
            return True
    return False


def _is_final(match: re.Match[str]) -> bool:
    """Whether a mark states the final answer, and not that of a step."""
    before = match.string[max(0, match.start() - REACH) : match.start()]
    return match[0].startswith("####") or FINAL.search(before) is not None


def _results_of_last(text: str) -> list[re.Match[str]]:
    """The results of the last calculation in a text, all of them: `= 142` and `= 143` of two equations for 84 + 59."""
    matches = list(CALCULATED.finditer(text))
    work = {"".join(match["work"].split()) for match in matches[-1:]}
    return [match for match in matches if "".join(match["work"].split()) in work]


def _without_words(match: re.Match[str]) -> str:
    """Drop a number in words that is the integer before it; write digits for another one."""
    number = parse_spelled(match[3])
    if number is None or number.end != len(match[3]):
        return match[0]
    return match[1] + match[2] if number.value == _parse(match[1]) else f"{match[1]}{match[2]} ({number.value})"


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


def _value(match: re.Match[str]) -> int:
    return _parse(match["value"])


def _parse(token: str) -> int:
    return int(token.replace(",", "").replace("\u2212", "-"))
