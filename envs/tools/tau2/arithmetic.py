"""Work out `(1.5 + 2) * 3`: the expressions of the tool `calculate`, without `eval`."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

from envs.types import ToolError

MAX_LENGTH = 500
_SIGNS = frozenset("0123456789+-*/(). ")
_OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def calculate(expression: str) -> str:
    """Return the value of an expression of numbers, + - * / and parentheses, rounded to two digits.

    Raises ToolError for anything else, and for a value that is not finite.
    """
    if len(expression) > MAX_LENGTH or not set(expression) <= _SIGNS:
        raise ToolError(f"an expression has digits, points, + - * / ( ) and spaces, {MAX_LENGTH} at the most")
    try:
        return str(round(float(_value(ast.parse(expression.strip(), mode="eval").body)), 2))
    except (SyntaxError, ValueError, ArithmeticError, RecursionError, MemoryError):
        raise ToolError(f"{expression!r} has no value") from None


def _value(node: ast.expr) -> float:
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return float(node.value)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return float(_OPERATORS[type(node.op)](_value(node.left), _value(node.right)))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        return -_value(node.operand) if isinstance(node.op, ast.USub) else _value(node.operand)
    raise ValueError(ast.dump(node)[:100])
