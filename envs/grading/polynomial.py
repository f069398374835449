"""Quotients of polynomials whose coefficients are rationals times square roots of whole numbers, compared exactly.

Square roots of different square-free numbers are linearly independent over the rationals, and variables (pi is one of
them) are independent unknowns. So two values are equal exactly if their cross products have the same terms.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from math import gcd, isqrt
from typing import NamedTuple

MAX_TERMS = 60
MAX_BITS = 2000  # of a numerator or denominator
MAX_POWER = 64
MAX_RADICAND = 10**10  # bounds the time of trial division


class Undecided(Exception):
    """The texts are outside the forms that `envs.grading` compares exactly, or too large."""


class Term(NamedTuple):
    """The square root of a square-free `radicand` times powers of variables: `Term(2, (("x", 3),))`, sqrt(2) x^3.

    The powers are sorted by name, without powers of 0.
    """

    radicand: int
    powers: tuple[tuple[str, int], ...]


Sum = Mapping[Term, Fraction]  # no coefficient is 0
UNIT = Term(1, ())
ONE: Sum = {UNIT: Fraction(1)}


class Value(NamedTuple):
    """An exact value: the quotient `top / bottom` of two sums, each of which maps a term to its rational factor.

    `bottom` is not the empty sum; the number 0 has an empty `top`. The operations raise Undecided for results that are
    too large.
    """

    top: Sum
    bottom: Sum = ONE

    def plus(self, other: Value) -> Value:
        """Return `self + other`."""
        if self.bottom == other.bottom:
            return Value(_sum(self.top, other.top), self.bottom)
        tops = _product(self.top, other.bottom), _product(other.top, self.bottom)
        return Value(_sum(*tops), _product(self.bottom, other.bottom))

    def times(self, other: Value) -> Value:
        """Return `self * other`."""
        return Value(_product(self.top, other.top), _product(self.bottom, other.bottom))

    def inverse(self) -> Value:
        """Return `1 / self`. Raises Undecided for zero."""
        if not self.top:
            raise Undecided("a division by zero")
        return Value(self.bottom, self.top)

    def power(self, exponent: int) -> Value:
        """Return `self ** exponent` for a whole number.

        Raises Undecided for 0 to a power below 1, and for exponents beyond `MAX_POWER` on either side.
        """
        if abs(exponent) > MAX_POWER or not (self.top or exponent > 0):
            raise Undecided("a power out of bounds")
        base, product = (self if exponent >= 0 else self.inverse()), constant(1)
        for _ in range(abs(exponent)):
            product = product.times(base)
        return product

    def root(self, degree: int) -> Value:
        """Return the square root of a rational from 0 up, or a higher root (`degree` 3, 4, ...) that is rational.

        Raises Undecided for other values and roots.
        """
        whole = self.rational()
        if whole is None or whole < 0 or not 2 <= degree <= MAX_POWER:
            raise Undecided("a root of something other than a rational")
        radicand = whole.numerator * whole.denominator ** (degree - 1)
        if radicand > MAX_RADICAND:
            raise Undecided("a root of a large number")
        if degree == 2:
            square, rest = _square_free(radicand)
            return Value({Term(rest, ()): Fraction(square, whole.denominator)} if radicand else {})
        candidate = round(radicand ** (1 / degree))
        if candidate**degree != radicand:
            raise Undecided("an irrational root")
        return constant(Fraction(candidate, whole.denominator))

    def rational(self) -> Fraction | None:
        """Return the value if it is a rational number, else None."""
        if self.top.keys() | self.bottom.keys() <= {UNIT}:
            return self.top.get(UNIT, Fraction(0)) / self.bottom[UNIT]
        return None

    def variables(self) -> set[str]:
        """Return the names of the variables in the value."""
        return {name for side in self for term in side for name, _ in term.powers}

    def equals(self, other: Value) -> bool:
        """Whether both are equal for all values of their variables for which both are defined."""
        return _product(self.top, other.bottom) == _product(other.top, self.bottom)


def constant(number: Fraction | int) -> Value:
    """Make the value of a number."""
    return Value({UNIT: Fraction(number)} if number else {})


def variable(name: str) -> Value:
    """Make the value of a variable."""
    return Value({Term(1, ((name, 1),)): Fraction(1)})


def _sum(first: Sum, second: Sum) -> Sum:
    total = dict(first)
    for term, factor in second.items():
        _add(total, term, factor)
    return _check_size(total)


def _product(first: Sum, second: Sum) -> Sum:
    if second == ONE:
        return first
    if first == ONE:
        return second
    if len(first) * len(second) > MAX_TERMS**2:
        raise Undecided("too many terms")
    total: dict[Term, Fraction] = {}
    for term, factor in first.items():
        for other_term, other_factor in second.items():
            divisor = gcd(term.radicand, other_term.radicand)
            radicand = term.radicand * other_term.radicand // divisor**2
            powers = _add_powers(term.powers, other_term.powers)
            _add(total, Term(radicand, powers), factor * other_factor * divisor)
    return _check_size(total)


def _add_powers(first: tuple[tuple[str, int], ...], second: tuple[tuple[str, int], ...]) -> tuple[tuple[str, int], ...]:
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


def _check_size(total: dict[Term, Fraction]) -> Sum:
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
    side = isqrt(number)  # the remaining number is a prime, a product of two primes, or the square of a prime
    return (square * side, rest) if side * side == number else (square, rest * number)
