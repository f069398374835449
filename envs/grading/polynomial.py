"""Fractions of polynomials over the rationals and square roots of whole numbers, compared exactly.

Square roots of different square-free numbers are linearly independent over the rationals, and letters (pi among them)
stand for independent unknowns. So two values are equal exactly if their cross products have the same terms.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from math import gcd, isqrt
from typing import NamedTuple

MAX_TERMS = 60
MAX_BITS = 2000  # of a numerator or denominator
MAX_POWER = 64
MAX_RADICAND = 10**10  # so that trial division ends soon


class Undecided(Exception):
    """What was asked for is outside the forms that are decided here, or too large for them."""


class Term(NamedTuple):
    """The square root of a square-free `radicand` times letters with their powers, sorted, no power 0."""

    radicand: int
    powers: tuple[tuple[str, int], ...]


Sum = Mapping[Term, Fraction]  # no coefficient is 0
UNIT = Term(1, ())
ONE: Sum = {UNIT: Fraction(1)}


class Value(NamedTuple):
    """`top / bottom`; `bottom` is not the empty sum."""

    top: Sum
    bottom: Sum = ONE

    def plus(self, other: Value) -> Value:
        """The sum of both."""
        if self.bottom == other.bottom:
            return Value(_added(self.top, other.top), self.bottom)
        tops = _product(self.top, other.bottom), _product(other.top, self.bottom)
        return Value(_added(*tops), _product(self.bottom, other.bottom))

    def times(self, other: Value) -> Value:
        """The product of both."""
        return Value(_product(self.top, other.top), _product(self.bottom, other.bottom))

    def inverse(self) -> Value:
        """1 divided by it."""
        if not self.top:
            raise Undecided("a division by zero")
        return Value(self.bottom, self.top)

    def power(self, exponent: int) -> Value:
        """It, raised to a whole number; 0 to the 0 is left undecided."""
        if abs(exponent) > MAX_POWER or not (self.top or exponent > 0):
            raise Undecided("a power out of bounds")
        base, raised = (self if exponent >= 0 else self.inverse()), constant(1)
        for _ in range(abs(exponent)):
            raised = raised.times(base)
        return raised

    def root(self, degree: int) -> Value:
        """The square root of a rational that is not negative, or a higher root that is rational."""
        whole = self.rational()
        if whole is None or whole < 0 or not 2 <= degree <= MAX_POWER:
            raise Undecided("a root of something other than a rational")
        radicand = whole.numerator * whole.denominator ** (degree - 1)
        if radicand > MAX_RADICAND:
            raise Undecided("a root of a large number")
        if degree == 2:
            square, rest = _square_free(radicand)
            return Value({Term(rest, ()): Fraction(square, whole.denominator)} if radicand else {})
        near = round(radicand ** (1 / degree))
        if near**degree != radicand:
            raise Undecided("an irrational root")
        return constant(Fraction(near, whole.denominator))

    def rational(self) -> Fraction | None:
        """Its value, if it is a plain number."""
        if self.top.keys() | self.bottom.keys() <= {UNIT}:
            return self.top.get(UNIT, Fraction(0)) / self.bottom[UNIT]
        return None

    def letters(self) -> set[str]:
        """The letters it is written with."""
        return {letter for side in self for term in side for letter, _ in term.powers}

    def equals(self, other: Value) -> bool:
        """Whether both are the same for all values of their letters where both are defined."""
        return _product(self.top, other.bottom) == _product(other.top, self.bottom)


def constant(number: Fraction | int) -> Value:
    """A plain number."""
    return Value({UNIT: Fraction(number)} if number else {})


def letter(name: str) -> Value:
    """An unknown."""
    return Value({Term(1, ((name, 1),)): Fraction(1)})


def _added(first: Sum, second: Sum) -> Sum:
    total = dict(first)
    for term, factor in second.items():
        _add(total, term, factor)
    return _bounded(total)


def _product(first: Sum, second: Sum) -> Sum:
    if second == ONE:
        return first
    if first == ONE:
        return second
    if len(first) * len(second) > MAX_TERMS**2:
        raise Undecided("too many terms")
    total: dict[Term, Fraction] = {}
    for one, factor in first.items():
        for other, by in second.items():
            shared = gcd(one.radicand, other.radicand)
            radicand = one.radicand * other.radicand // shared**2
            _add(total, Term(radicand, _joined(one.powers, other.powers)), factor * by * shared)
    return _bounded(total)


def _joined(first: tuple[tuple[str, int], ...], second: tuple[tuple[str, int], ...]) -> tuple[tuple[str, int], ...]:
    if not first or not second:
        return first or second
    powers = dict(first)
    for name, power in second:
        powers[name] = powers.get(name, 0) + power
    return tuple(sorted(powers.items()))


def _add(total: dict[Term, Fraction], term: Term, factor: Fraction) -> None:
    if new := total.get(term, 0) + factor:
        total[term] = Fraction(new)
    else:
        total.pop(term, None)


def _bounded(total: dict[Term, Fraction]) -> Sum:
    sizes = (max(factor.numerator.bit_length(), factor.denominator.bit_length()) for factor in total.values())
    if len(total) > MAX_TERMS or max(sizes, default=0) > MAX_BITS:
        raise Undecided("too large a number")
    return total


def _square_free(number: int) -> tuple[int, int]:
    """`(a, b)` with `number = a * a * b` and no square in `b`."""
    square, rest, divisor = 1, 1, 2
    while divisor**3 <= number:
        while number % divisor**2 == 0:
            number //= divisor**2
            square *= divisor
        if number % divisor == 0:
            number //= divisor
            rest *= divisor
        divisor += 1
    side = isqrt(number)  # what is left is a prime, a product of two, or a square of one
    return (square * side, rest) if side * side == number else (square, rest * number)
