"""Evaluate expressions of whole numbers with + - * / and brackets exactly. Nothing is run as code."""

from __future__ import annotations

import ast
import re
from fractions import Fraction
from typing import NamedTuple

from envs.grading.number import FRACTION

MAX_TEXT = 200
MAX_FRACTIONS = 10  # nested in each other
_OPERATORS = [
    (re.compile(r"[×·⋅]|\\times\b|\\cdot\b|(?<=[0-9)\]])(?<!\b0)\s*[xX]\s*(?=[0-9(\[])"), "*"),
    (re.compile(r"÷|\\div\b"), "/"),
    (re.compile("−"), "-"),
]
_PAIR = re.compile(r"\([^()\[\]]*\)|\[[^()\[\]]*\]")
_MARKUP = re.compile(r"\\(?:left|right)\b|[$`]|\\[()\[\],;! ]")
_ALLOWED = re.compile(r"[0-9+\-*/() ]+")
_FORBIDDEN = re.compile(r"\*\s*\*|/\s*/|[0-9]\s+[0-9]|(?<![0-9])0[0-9]|[0-9]{10}")


class Evaluation(NamedTuple):
    """The exact value of an expression, and the numbers in it from left to right, without signs."""

    value: Fraction
    numbers: tuple[int, ...]


def evaluate(text: str) -> Evaluation | None:
    """Evaluate an expression of whole numbers with + - * / and brackets, `(8 - 2) * 3`, also in LaTeX.

    `×`, `·` and `x` between numbers multiply, `[2 + 3] x 4`.

    None if `text` is no such expression, is longer than `MAX_TEXT` characters, or divides by zero.
    """
    for pattern, plain in _OPERATORS:
        text = pattern.sub(plain, text)
    text = _MARKUP.sub("", text).strip()
    if "[" in text and len(text) <= MAX_TEXT and _has_pairs(text):
        text = text.replace("[", "(").replace("]", ")")
    for _ in range(MAX_FRACTIONS if "frac" in text else 0):
        text = FRACTION.sub(r"((\1\2)/(\3\4))", text)
    if len(text) > MAX_TEXT or not _ALLOWED.fullmatch(text) or _FORBIDDEN.search(text):
        return None
    try:
        return _evaluate(ast.parse(text, mode="eval").body)
    except (SyntaxError, ValueError, ArithmeticError, RecursionError, MemoryError):
        return None


def _has_pairs(text: str) -> bool:
    """Whether each bracket has its partner, a square one a square one."""
    while (shorter := _PAIR.sub("0", text)) != text:
        text = shorter
    return not any(bracket in text for bracket in "()[]")


def _evaluate(node: ast.expr) -> Evaluation:
    match node:
        case ast.Constant(value=int(number)):
            return Evaluation(Fraction(number), (number,))
        case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=inner):
            value, numbers = _evaluate(inner)
            return Evaluation(-value if isinstance(node.op, ast.USub) else value, numbers)
        case ast.BinOp(left=left, op=operator, right=right):
            first, second = _evaluate(left), _evaluate(right)
            return Evaluation(_apply(operator, first.value, second.value), first.numbers + second.numbers)
    raise ValueError(f"{type(node).__name__} is not allowed in an expression")


def _apply(operator: ast.operator, left: Fraction, right: Fraction) -> Fraction:
    match operator:
        case ast.Add():
            return left + right
        case ast.Sub():
            return left - right
        case ast.Mult():
            return left * right
        case ast.Div():
            return left / right
    raise ValueError(f"{type(operator).__name__} is not an allowed operator")
