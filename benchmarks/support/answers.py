"""Right answers and replies to grade, with the truth about each, by kind of answer."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

import numpy as np

Drawn = tuple[str, str, str]  # a right answer, the same in another form, and a wrong one


class Pair(NamedTuple):
    """`is_right` is true by construction."""

    gold: str
    reply: str
    is_right: bool


def pairs(kind: str, number: int, seed: int) -> list[Pair]:
    """`number` pairs of a kind, half of them right, in the ways that models declare an answer."""
    rng = np.random.default_rng([seed, list(KINDS).index(kind)])
    found = []
    for position in range(number):
        gold, same, wrong = KINDS[kind](rng)
        is_right = position % 2 == 0
        said = same if is_right else wrong
        way = ("So we get \\boxed{%s}.", "The final answer is $%s$.", "$$\\boxed{%s}$$")[int(rng.integers(3))]
        found.append(Pair(gold, way % said, is_right))
    return found


def _integer(rng: np.random.Generator) -> Drawn:
    value = int(rng.integers(-99_999, 100_000))
    return str(value), f"{value:,}" if rng.integers(2) else f"{value}.0", str(value + _off(rng))


def _fraction(rng: np.random.Generator) -> Drawn:
    top, bottom, by = int(rng.integers(1, 60)), int(rng.integers(2, 60)), int(rng.integers(2, 9))
    same = f"\\frac{{{by * top}}}{{{by * bottom}}}" if rng.integers(2) else f"{by * top}/{by * bottom}"
    return f"\\frac{{{top}}}{{{bottom}}}", same, f"\\frac{{{top + _off(rng)}}}{{{bottom}}}"


def _decimal(rng: np.random.Generator) -> Drawn:
    value = int(rng.integers(101, 99_999))
    shown = f"{value / 100:.2f}"
    return shown, f"{shown}0" if rng.integers(2) else _latex(Fraction(value, 100)), f"{(value + _off(rng)) / 100:.2f}"


def _formula(rng: np.random.Generator) -> Drawn:
    a, b, c = (int(number) for number in rng.integers(2, 13, size=3))
    root = (2, 3, 5, 6, 7)[int(rng.integers(5))]
    forms = [
        (f"{a}\\sqrt{{{root}}}", f"\\sqrt{{{a * a * root}}}", f"{a + 1}\\sqrt{{{root}}}"),
        (f"\\frac{{\\sqrt{{{root}}}}}{{{root}}}", f"\\frac{{1}}{{\\sqrt{{{root}}}}}", f"\\sqrt{{{root}}}"),
        (f"\\frac{{{a}\\pi}}{{{b}}}", f"\\frac{{{a}}}{{{b}}}\\pi", f"\\frac{{{a + 1}\\pi}}{{{b}}}"),
        (f"x^2+{a + b}x+{a * b}", f"(x+{a})(x+{b})", f"x^2+{a + b}x+{a * b + 1}"),
        (f"\\frac{{{a}x}}{{{b}}}", f"\\frac{{{a}}}{{{b}}}x", f"\\frac{{{a}}}{{{b}x}}"),
        (f"{a}+{b}i", f"{b}i+{a}", f"{a}-{b}i"),
        (f"y = {a}x+{b}", f"{b}+{a}x", f"{a}x-{b}"),
        (f"{a}\\cdot 10^{{{b}}}", str(a * 10**b), str(a * 10 ** (b + 1))),
        (f"\\sin({a}x)+{b}", f"{b}+\\sin({a}x)", f"\\sin({a}x)-{b}"),
        (f"\\log_{{{a}}}({c})", f"\\frac{{\\ln {c}}}{{\\ln {a}}}", f"\\log_{{{a}}}({c + 1})"),
    ]
    return forms[int(rng.integers(len(forms)))]


def _collection(rng: np.random.Generator) -> Drawn:
    a, b, c = sorted(int(number) for number in rng.choice(np.arange(-20, 21), size=3, replace=False))
    forms = [
        (f"\\{{{a},{b},{c}\\}}", f"\\{{{c}, {a}, {b}\\}}", f"\\{{{a},{b}\\}}"),
        (f"{a}, {b}", f"\\{{{b}, {a}\\}}", f"{a}, {c}"),
        (f"({a},{b})", f"\\left({a}, {_latex(Fraction(2 * b, 2))}\\right)", f"({b},{a})"),
        (f"[{a},{c})", f"x \\in [{a}, {c})", f"[{a},{c}]"),
        (
            f"(-\\infty,{a})\\cup({b},\\infty)",
            f"({b},\\infty) \\cup (-\\infty,{a})",
            f"(-\\infty,{a}]\\cup({b},\\infty)",
        ),
    ]
    return forms[int(rng.integers(len(forms)))]


KINDS: dict[str, Callable[[np.random.Generator], Drawn]] = {
    "integers": _integer,
    "fractions": _fraction,
    "decimals": _decimal,
    "LaTeX": _formula,
    "sets": _collection,
}


def _off(rng: np.random.Generator) -> int:
    return int(rng.integers(1, 10))


def _latex(value: Fraction) -> str:
    return str(value.numerator) if value.denominator == 1 else f"\\frac{{{value.numerator}}}{{{value.denominator}}}"
