"""Sums, differences and products, numbered: what Arithmetic and Revise show."""

from __future__ import annotations

from math import isqrt

from envs.procedural import digest, permute

LEVELS = (0, 1, 2, 3)
KEY = "math/Arithmetic-v0"
OPERATORS = [(first, second) for first in "+-*" for second in "+-*"]
HUNDREDS, FACTORS = range(100, 1000), range(2, 10)
CHAINS = len(HUNDREDS) * len(FACTORS) ** 2  # problems of each pair of operators: as many as the rarest has
Problem = tuple[str, int]  # what is shown, and its value


def total(level: int) -> int:
    """How many problems a level has."""
    return (54, 4095, 2 * 4095, CHAINS * len(OPERATORS))[level]


def problem(level: int, number: int) -> Problem:
    """The level's problem of a number in `range(total(level))`; no two numbers give the same one."""
    if level == 3:
        return _chain(number)
    operator = "+"
    if level == 2:
        number, operator = number // 2, "+-"[number % 2]
    first = (0, 10, 10)[level]  # the least number at this level
    number += level == 0  # past 0 + 0, whose echo would be right
    row = (isqrt(8 * number + 1) - 1) // 2
    a, b = first + number - row * (row + 1) // 2, first + row
    if digest(KEY, level, operator, a, b) & 1:
        a, b = b, a
    return f"{a} {operator} {b}", a + b if operator == "+" else a - b


def _chain(number: int) -> Problem:
    number, pair = divmod(number, len(OPERATORS))
    first, second = OPERATORS[pair]
    bs, cs = (FACTORS if operator == "*" else HUNDREDS for operator in (first, second))
    rest = permute(number, len(HUNDREDS) * len(bs) * len(cs), KEY)
    rest, place = divmod(rest, len(cs))
    a, b, c = HUNDREDS[rest // len(bs)], bs[rest % len(bs)], cs[place]
    grouped = second == "*" and first != "*"
    value = _apply(first, a, b * c) if grouped else _apply(second, _apply(first, a, b), c)
    return f"{a} {first} {b} {second} {c}", value


def _apply(operator: str, a: int, b: int) -> int:
    return {"+": a + b, "-": a - b, "*": a * b}[operator]
