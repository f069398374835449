"""The numbered arithmetic problems of Arithmetic and Revise: sums, differences and products."""

from __future__ import annotations

from math import isqrt

from envs.procedural import digest, permute

LEVELS = (0, 1, 2, 3)
KEY = "math/Arithmetic-v0"
OPERATORS = [(first, second) for first in "+-*" for second in "+-*"]
HUNDREDS, FACTORS = range(100, 1000), range(2, 10)
CHAINS = len(HUNDREDS) * len(FACTORS) ** 2  # problems of each pair of operators, the number of the rarest pair
Problem = tuple[str, int]  # the expression and its value


def total(level: int) -> int:
    """Return the number of problems of a level."""
    return (54, 4095, 2 * 4095, CHAINS * len(OPERATORS))[level]


def problem(level: int, number: int) -> Problem:
    """Return problem `number`, in `range(total(level))`, of a level. Different numbers give different problems."""
    if level == 3:
        return _chain(number)
    operator = "+"
    if level == 2:
        number, operator = number // 2, "+-"[number % 2]
    first = (0, 10, 10)[level]  # the least number at this level
    number += level == 0  # skips 0 + 0, which a reply that repeats the prompt would solve
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
    product_first = second == "*" and first != "*"
    value = _apply(first, a, b * c) if product_first else _apply(second, _apply(first, a, b), c)
    return f"{a} {first} {b} {second} {c}", value


def _apply(operator: str, a: int, b: int) -> int:
    return {"+": a + b, "-": a - b, "*": a * b}[operator]
