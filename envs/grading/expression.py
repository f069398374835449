"""Expressions of whole numbers with + - * / and brackets, worked out exactly. Nothing is run as code."""

from __future__ import annotations

import ast
import re
from fractions import Fraction
from typing import NamedTuple

from envs.grading.declared import declaration, whole
from envs.grading.number import FRACTION

MAX_TEXT = 200
MAX_FRACTIONS = 10  # of one above or below another
_SPELLED = [(re.compile(r"×|\\times\b|\\cdot\b"), "*"), (re.compile(r"÷|\\div\b"), "/"), (re.compile("−"), "-")]
_DRESS = re.compile(r"\\(?:left|right)\b|[$`]|\\[()\[\],;! ]")
_AROUND = "_. !\n"
_ALLOWED = re.compile(r"[0-9+\-*/() ]+")
_FORBIDDEN = re.compile(r"\*\s*\*|/\s*/|[0-9]\s+[0-9]|(?<![0-9])0[0-9]|[0-9]{10}")


class Worked(NamedTuple):
    """The value of an expression and the numbers it uses, in their order."""

    value: Fraction
    numbers: tuple[int, ...]


def stated(reply: str) -> str:
    """The expression that a reply gives as its answer: what it marks, else the reply itself if it is one line."""
    found = declaration(reply)
    text = found.text if found.kind in ("marked", "phrase") else whole(reply)
    text = _DRESS.sub("", text).strip(_AROUND)
    if text.startswith("*") or text.endswith("**"):  # emphasis, and not an expression that was cut off
        text = text.strip("*").strip(_AROUND)
    return text


def worked(text: str) -> Worked | None:
    """Work out `text`; None where it is no such expression, is too long, or divides by zero."""
    for pattern, plain in _SPELLED:
        text = pattern.sub(plain, text)
    text = _DRESS.sub("", text).strip()
    for _ in range(MAX_FRACTIONS if "frac" in text else 0):
        text = FRACTION.sub(r"((\1\2)/(\3\4))", text)
    if len(text) > MAX_TEXT or not _ALLOWED.fullmatch(text) or _FORBIDDEN.search(text):
        return None
    try:
        return _worked(ast.parse(text, mode="eval").body)
    except (SyntaxError, ValueError, ArithmeticError, RecursionError, MemoryError):
        return None


def _worked(node: ast.expr) -> Worked:
    match node:
        case ast.Constant(value=int(number)):
            return Worked(Fraction(number), (number,))
        case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=inner):
            value, numbers = _worked(inner)
            return Worked(-value if isinstance(node.op, ast.USub) else value, numbers)
        case ast.BinOp(left=left, op=operator, right=right):
            one, other = _worked(left), _worked(right)
            return Worked(_applied(operator, one.value, other.value), one.numbers + other.numbers)
    raise ValueError(f"{type(node).__name__} is no part of such an expression")


def _applied(operator: ast.operator, left: Fraction, right: Fraction) -> Fraction:
    match operator:
        case ast.Add():
            return left + right
        case ast.Sub():
            return left - right
        case ast.Mult():
            return left * right
        case ast.Div():
            return left / right
    raise ValueError(f"{type(operator).__name__} is no such operator")
