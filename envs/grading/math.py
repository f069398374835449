r"""Verdicts on answers to mathematical problems: whether what a reply declares equals the gold answer.

*strict* is GSM8K's official rule: the first `#### <number>` of the reply (`#### (\-?[0-9\.\,]+)`), commas removed,
equal as a string to the gold answer read in the same way. So for 18, `#### 18.` and `#### 18.00` are wrong.

*flexible* looks for the declared answer (`envs.grading.declared`) and compares its value with the gold's:
- declarations that differ (two boxes, several `####`, a bare list of numbers) are refused, and so is one that cannot
  be read: no weaker hint is used instead;
- where both are number literals (`envs.grading.number`), exact rationals decide. `36/2` is 18, 0.333 is not 1/3,
  `50%` is 50 and not 1/2, units are dropped, digits outside ASCII are no digits;
- where the gold is text (`Friday`, `(C)`), or a formula that nobody can read, the text decides, without regard to
  spaces, LaTeX dress and, in words and single letters, case;
- formulas, sets, tuples and intervals are compared exactly (`envs.grading.exact`); where such a gold answer is the
  whole of a reply of one line, it needs no mark. Brackets count: `(1,2)`, `[1,2]`, `(1,2]` and `\{1,2\}` are four
  things. Without `symbolic`, numbers must be worked out;
- what is still undecided goes, with `symbolic=True`, to math-verify (`envs.grading.symbolic`).

A reply whose formula is too long, unreadable, or over its time or memory is wrong. A fault of ours raises: it is never
a verdict. Where math-verify is needed and missing that raises too, so that a score never depends on what is installed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from envs.grading import exact
from envs.grading import symbolic as formulas
from envs.grading.declared import declaration, phrase_number, whole
from envs.grading.equation import is_equation
from envs.grading.number import is_plain, number, stands, undress
from envs.grading.workers import OverLimit

Rule = Literal["flexible", "strict"]
RULES = ("flexible", "strict")

OFFICIAL = re.compile(r"#### (\-?[0-9\.\,]+)")  # openai/grade-school-math, dataset.py
_LIST = re.compile(r"(?:[a-z]+(?:\\in|=))?(\(|\[|\\\{).*,.*(\)|\]|\\\})")
_BRACED = re.compile(r"([_^])\{([0-9A-Za-z])\}")  # x_{1} is x_1
_BASED = re.compile(r"([0-9]+)_(?:[0-9]|\{[0-9]+\})")  # a base need not be given, but one that is given counts
_ENVIRONMENT = re.compile(r"\\(?:begin|end)\s*\{[a-z]*\}")
_PROSE = re.compile(r"\\(?:text|textbf|textit|mbox|mathrm)\s*\{[^{}]*[A-Za-z]|(?<![\\A-Za-z])[A-Za-z]{4,}")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a reply earns under either rule, and why.

    `correct` is the verdict of the rule that was asked for. `extracted` is the declared answer that flexible read, None
    where none is clear. `method` is what decided flexible: "number", "text", "exact", "math-verify", or the reason of
    a refusal: "none" (nothing declared), "unclear" (several things), "unreadable", "deadline", "memory".
    """

    correct: bool
    strict: bool
    flexible: bool
    extracted: str | None
    method: str


def verify(
    reply: str, answer: str, *, rule: Rule = "flexible", symbolic: bool = True, deadline_s: float = 5.0
) -> Verdict:
    """Grade `reply` against the gold `answer` (a number, a formula, or a text that ends in `#### number`).

    Without `symbolic` math-verify is not asked, so no extra is needed and no process starts; and where the gold is made
    of numbers, those of the reply must be worked out.
    `deadline_s` are seconds of CPU time for math-verify. Raises ValueError for an unknown rule or an empty gold answer.
    """
    if rule not in RULES:
        raise ValueError(f"rule {rule!r} is not one of {', '.join(RULES)}")
    gold = official(answer) or answer.strip()
    if not gold:
        raise ValueError("the gold answer is empty")
    strict = official(reply) == gold.replace(",", "")
    flexible, extracted, method = _flexible(reply, gold, symbolic, deadline_s)
    return Verdict(strict if rule == "strict" else flexible, strict, flexible, extracted, method)


def official(text: str) -> str | None:
    """What GSM8K's official evaluation extracts from `text`."""
    match = OFFICIAL.search(text)
    return match[1].replace(",", "") if match else None


def _flexible(reply: str, gold: str, symbolic: bool, deadline_s: float) -> tuple[bool, str | None, str]:
    kind, text = declaration(reply)
    wanted = None if is_equation(gold) else number(gold)
    if wanted is None and kind in ("none", "unclear", "last") and (line := whole(reply)):
        same = exact.equal(gold, line, literal=not symbolic)
        if same is not None:
            return same, line, "exact"
    if kind in ("none", "unclear"):
        return False, None, kind
    given = phrase_number(text) if kind == "phrase" and wanted is not None else number(text)
    if wanted is not None and given is not None:
        return wanted == given and not exact.is_renamed(gold, text), text, "number"
    if wanted is None and _same_text(gold, text):
        return True, text, "text"
    if kind == "last":
        return False, text, "unreadable"
    return _formulas(gold, text, wanted is not None, symbolic, deadline_s)


def _formulas(gold: str, text: str, numeric: bool, symbolic: bool, deadline_s: float) -> tuple[bool, str, str]:
    """The verdict on two formulas or collections; `numeric` where the gold is a plain number."""
    if numeric and not (symbolic and stands(text, text) and formulas.is_formula(text, numeric=True)):
        return False, text, "unreadable"
    same = exact.equal(gold, text, literal=not symbolic)
    if same is not None:
        return same, text, "exact"
    if not numeric and (_is_prose(gold) or _brackets(gold) != _brackets(text)):
        return False, text, "text"
    if not (symbolic and is_plain(text) and formulas.is_formula(text, numeric=numeric)):
        return False, text, "unreadable"
    if formulas.is_misread(gold, text):
        return False, text, "text"
    try:
        same = formulas.equal(gold, text, deadline_s=deadline_s)
    except OverLimit as over:
        return False, text, over.limit
    return bool(same), text, "text" if same is None else "math-verify"


def _same_text(gold: str, text: str) -> bool:
    plain = [_BRACED.sub(r"\1\2", "".join(undress(side).rstrip(". ").split())) for side in (gold, text)]
    if (based := _BASED.fullmatch(plain[0])) and based[1] == plain[1]:
        return True
    if _is_prose(gold) or len(plain[0].strip("().")) == 1:  # in formulas R and r are two things
        plain = [side.strip("()").casefold() for side in plain]
    return plain[0] == plain[1] and bool(plain[0])


def _brackets(text: str) -> str:
    r"""The brackets around a list, "" for anything else: math-verify takes `\{1,2\}` for the interval `(1,2)`."""
    match = _LIST.fullmatch("".join(undress(text).rstrip(". ").split()))
    return match[1] + match[2] if match else ""


def _is_prose(gold: str) -> bool:
    """Whether the gold answer is words: read as a formula, letters would commute and anagrams pass."""
    return _PROSE.search(_ENVIRONMENT.sub("", gold)) is not None
