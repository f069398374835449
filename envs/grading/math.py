r"""Grade answers to mathematical problems: compare the answer that a reply declares with the gold answer.

*strict* is GSM8K's official rule: the first `#### <number>` of the reply (`#### (\-?[0-9\.\,]+)`), commas removed,
equal as a string to the gold answer read in the same way. So for 18, `#### 18.` and `#### 18.00` are wrong.

*flexible* finds the declared answer (`envs.grading.declaration`) and compares its value with that of the gold answer:
- declarations that differ (two boxes, several `####`, a bare list of numbers) are wrong, and so is one that cannot be
  parsed: no weaker kind of declaration replaces it;
- two number literals (`envs.grading.number`) are compared as exact rationals. `36/2` is 18, 0.333 is not 1/3, `50%` is
  50 and not 1/2, units are dropped, digits outside ASCII do not count as digits;
- if the gold answer is text (`Friday`, `(C)`) or a formula that cannot be parsed, texts are compared without spaces
  and LaTeX markup and, for words and single letters, without case;
- formulas, sets, tuples and intervals are compared exactly (`envs.grading.exact`); a reply of one line that consists of
  such an answer needs no mark. Brackets count: `(1,2)`, `[1,2]`, `(1,2]` and `\{1,2\}` are four different answers.
  Without `symbolic`, numbers must be worked out;
- with `symbolic=True`, math-verify (`envs.grading.symbolic`) decides the rest.

A formula that is too long, cannot be parsed, or exceeds its time or memory is wrong. Infrastructure faults raise
and are never a verdict. A missing math-verify raises where it is needed: no score depends on what is installed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from envs.grading import exact
from envs.grading import symbolic as math_verify
from envs.grading.declaration import collections_in, find_declaration, number_in_phrase, read_number
from envs.grading.doubts import has_plain_words, keeps_value
from envs.grading.equation import is_equation
from envs.grading.marks import same_line_boxes
from envs.grading.number import parse_number, strip_markup
from envs.grading.workers import OverLimit

Rule = Literal["flexible", "strict"]
RULES = ("flexible", "strict")

OFFICIAL = re.compile(r"#### (\-?[0-9\.\,]+)")  # openai/grade-school-math, dataset.py
_LIST = re.compile(r"(?:[a-z]+(?:\\in|=))?(\(|\[|\\\{).*,.*(\)|\]|\\\})")
_BRACED = re.compile(r"([_^])\{([0-9A-Za-z])\}")  # x_{1} is x_1
_WITH_BASE = re.compile(r"([0-9]+)_(?:[0-9]|\{[0-9]+\})")  # a reply may omit the base, but must not give another
_ENVIRONMENT = re.compile(r"\\(?:begin|end)\s*\{[a-z]*\}")
_LETTER = re.compile(r"\(?[A-Z]\)?")
_CHOICE = re.compile(r"(?:Option)?\(?([A-Z])(?:[).:](?=.)|(?<=Option[A-Z])\)?$)")  # (C) 10, C. 10, Option C
_CHOICES = re.compile(r"\b(?:or|and)\b|\([A-Z]\).*\([A-Z]\)")  # (C) or (D)
_PROSE = re.compile(r"\\(?:text|textbf|textit|mbox|mathrm)\s*\{[^{}]*[A-Za-z]|(?<![\\A-Za-z])[A-Za-z]{4,}")


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on a reply, under both rules.

    Attributes:
        correct: Verdict of the rule that was selected.
        strict: Verdict of the rule "strict".
        flexible: Verdict of the rule "flexible".
        extracted: The declared answer that the rule "flexible" read; None if there is no clear one.
        method: How "flexible" decided: "number", "text", "exact" or "math-verify"; or why it rejected the reply: "none"
            (nothing declared), "unclear" (different answers declared), "unreadable", "deadline" or "memory".
    """

    correct: bool
    strict: bool
    flexible: bool
    extracted: str | None
    method: str


def verify(
    reply: str, answer: str, *, rule: Rule = "flexible", symbolic: bool = True, deadline_s: float = 5.0
) -> Verdict:
    """Grade a reply.

    Args:
        reply: Text of the reply, without its reasoning.
        answer: The gold answer: a number, a formula, or a text that ends in `#### number`.
        rule: Rule that decides `Verdict.correct`.
        symbolic: Whether math-verify may decide. If not, no extra is needed, no process starts, and if the gold answer
            consists of numbers, those of the reply must be worked out.
        deadline_s: Seconds of CPU time for math-verify.

    Raises:
        ValueError: An unknown rule or an empty gold answer.
        symbolic.MissingExtra: math-verify is needed and not installed.
        workers.WorkerError: A worker process failed.
    """
    if rule not in RULES:
        raise ValueError(f"rule {rule!r} is not one of {', '.join(RULES)}")
    gold = official_answer(answer) or answer.strip()
    if not gold:
        raise ValueError("the gold answer is empty")
    strict = official_answer(reply) == gold.replace(",", "")
    flexible, text, method = _flexible(reply, gold, symbolic, deadline_s)
    return Verdict(strict if rule == "strict" else flexible, strict, flexible, text, method)


def official_answer(text: str) -> str | None:
    """Extract the number of the first `#### number` in `text`, as GSM8K's official evaluation does, without commas.

    Returns it as text, `1024`; None if there is none.
    """
    match = OFFICIAL.search(text)
    return match[1].replace(",", "") if match else None


def _flexible(reply: str, gold: str, symbolic: bool, deadline_s: float) -> tuple[bool, str | None, str]:
    """Verdict, declared answer and method of the rule "flexible"."""
    kind, text = find_declaration(reply)
    gold_number = None if is_equation(gold) else parse_number(gold)
    is_collection = gold_number is None or gold.startswith("{")  # `{13}` reads as a number too
    if is_collection and kind in ("none", "unclear", "last", "line"):
        for candidate in collections_in(reply):
            is_same = exact.is_equal(gold, candidate, literal=not symbolic)
            if is_same is not None:
                return is_same, candidate, "exact"
    if kind == "unclear" and gold_number is None and (texts := same_line_boxes(reply)):
        together = ", ".join(texts)  # the members of a collection, a box each
        if exact.is_equal(gold, together, literal=not symbolic):
            return True, together, "exact"
    if kind in ("none", "unclear"):
        return False, None, kind
    number = number_in_phrase(text) if kind == "phrase" and gold_number is not None else read_number(text)
    if gold_number is not None and number is not None:
        return gold_number == number and not exact.have_different_names(gold, text), text, "number"
    if gold_number is None and _is_same_text(gold, text):
        return True, text, "text"
    if kind in ("last", "line"):
        return False, text, "unreadable"
    return _compare_formulas(gold, text, gold_number is not None, symbolic, deadline_s)


def _compare_formulas(gold: str, text: str, numeric: bool, symbolic: bool, deadline_s: float) -> tuple[bool, str, str]:
    """Compare two formulas or collections; `numeric` says that the gold answer is a plain number."""
    if numeric and not (symbolic and keeps_value(text, text) and math_verify.is_formula(text, numeric=True)):
        return False, text, "unreadable"
    is_same = exact.is_equal(gold, text, literal=not symbolic)
    if is_same is not None:
        return is_same, text, "exact"
    if not numeric and (_is_prose(gold) or _brackets(gold) != _brackets(text)):
        return False, text, "text"
    if not (symbolic and has_plain_words(text) and math_verify.is_formula(text, numeric=numeric)):
        return False, text, "unreadable"
    if math_verify.is_misread(gold, text):
        return False, text, "text"
    try:
        is_same = math_verify.is_equal(gold, text, deadline_s=deadline_s)
    except OverLimit as error:
        return False, text, error.limit
    return bool(is_same), text, "text" if is_same is None else "math-verify"


def _is_same_text(gold: str, text: str) -> bool:
    plain = [_BRACED.sub(r"\1\2", "".join(strip_markup(side).rstrip(". ").split())) for side in (gold, text)]
    if (match := _WITH_BASE.fullmatch(plain[0])) and match[1] == plain[1]:
        return True
    if _LETTER.fullmatch(plain[0]) and (choice := _CHOICE.match(plain[1])) and not _CHOICES.search(text):
        return choice[1] == plain[0].strip("()")
    if _is_prose(gold) or len(plain[0].strip("().")) == 1:  # in formulas R and r are different
        plain = [side.strip("()").casefold() for side in plain]
    return plain[0] == plain[1] and bool(plain[0])


def _brackets(text: str) -> str:
    r"""The brackets around a list, "" for other texts. math-verify would take `\{1,2\}` for the interval `(1,2)`."""
    match = _LIST.fullmatch("".join(strip_markup(text).rstrip(". ").split()))
    return match[1] + match[2] if match else ""


def _is_prose(gold: str) -> bool:
    """Whether the gold answer consists of words. As formulas, anagrams would be equal, because letters commute."""
    return _PROSE.search(_ENVIRONMENT.sub("", gold)) is not None
