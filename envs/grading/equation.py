r"""Tell equations from values with a name, and decide whether two equations are the same.

`x = 5` and `\angle A = 30` give a value a name; `2x - y = 0`, `3x = 5` and `x^2 + y^2 = 4` are equations in unknowns,
and the number on their right is not the answer. Two equations are the same if the differences of their sides are equal
up to a number as a factor: `y = 2x + 3` is `4x - 2y + 6 = 0`, but `(x - 1)^2 = 0` is not `x = 1`.
"""

from __future__ import annotations

import re

from envs.grading import formula
from envs.grading.polynomial import ONE, Sum, Undecided, Value, constant

_WORDS = re.compile(r"\\(?:text|textbf|textit|textrm|mathrm|mbox)\s*\{[^{}]*\}|\\(?:left|right|angle|measuredangle)\b")
_WORD = re.compile(r"(?<![\\A-Za-z])[A-Za-z]{3,}")
_LIST = re.compile(r",|\b(?:and|or)\b")
_GREEK = "alpha|beta|gamma|delta|theta|lambda|mu|rho|sigma|tau|phi|omega"
_LETTER = re.compile(rf"(?<![\\A-Za-z])[A-Za-z]|\\(?:{_GREEK})\b")
_COMPUTATION = re.compile(
    r"[-+*/^|]|[0-9]\s*(?:[A-Za-z(]|\\[a-z])"
    r"|\\(?:[dtc]?frac|sqrt|cdot|times|div|pm|mp|binom|log|ln|exp|sin|cos|tan|cot|sec|csc|sum|prod|int|lfloor|lceil)"
)
_NAME = re.compile(r"\s*[A-Za-z]\s*")
_CALL = re.compile(r"[A-Za-z]\s*(?:\^\s*\{?\s*-\s*1\s*\}?\s*)?\(")


def is_equation(text: str) -> bool:
    """Whether `text` is an equation in unknowns, `3x = 5`; False for a list, and for a value with or without a name."""
    left, equals, right = _WORDS.sub(" ", text).rpartition("=")
    if not equals or _LIST.search(left) or _WORD.search(left):
        return False
    if not _LETTER.search(left):
        return _LETTER.search(right) is not None and not _WORD.search(right)
    return any(_LETTER.search(side) and _COMPUTATION.search(side) for side in left.split("="))


def is_same_equation(gold: str, answer: str) -> bool:
    """Whether both texts are the same equation: the differences of their sides are equal up to a number as a factor.

    `y = 2x + 3` is `4x - 2y + 6 = 0`; `(x - 1)^2 = 0` is not `x = 1`. Raises Undecided if one of them is no equation,
    contains what `envs.grading.formula` cannot parse, or where the factor may be a root or involve i.
    """
    left, _, right = answer.partition("=")
    if not is_equation(gold) and not _LETTER.search(left) and not _NAME.fullmatch(right):
        return False  # 0 = 2x + 3 is not 2x + 3
    tops = [_difference(text) for text in (gold, answer)]
    factors = {tops[0][term] / tops[1][term] for term in tops[0].keys() & tops[1].keys()}
    if tops[0].keys() == tops[1].keys() and len(factors) == 1:
        return True
    terms = [*tops[0], *tops[1]]
    if any(term.radicand != 1 or ("i", 1) in term.powers for term in terms):
        raise Undecided("the factor between both may be a root, or i the imaginary unit")
    return False


def _difference(text: str) -> Sum:
    """Left side minus right side."""
    sides = text.split("=")
    if len(sides) != 2 or _CALL.search(text):
        raise Undecided("not one equation, or a call of an unknown function")
    left, right = map(formula.parse, sides)
    difference = left.plus(right.times(constant(-1)))
    bottom = Value(difference.bottom, ONE).rational()
    if bottom is None or not difference.top:
        raise Undecided("an unknown in a denominator, or no unknown at all")
    return difference.top
