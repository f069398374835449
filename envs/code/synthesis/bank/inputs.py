"""Random inputs for functions: small values, edge cases, and values near a function's own constants."""

from __future__ import annotations

from typing import Any

import numpy as np

LETTERS = "abcdefghijklmnopqrstuvwxyz"


class InputSampler:
    """Draws inputs. Each method is a kind of input; its `size` is the number of the case, from 0, the simplest.

    Args:
        rng: The generator.
        constants: The constants of the function: numbers near them and letters among them are frequent.
        scale: A factor on the lengths of lists and texts.
    """

    def __init__(self, rng: np.random.Generator, constants: tuple[Any, ...] = (), scale: int = 1) -> None:
        self.rng, self.scale = rng, scale
        self.numerals = [one for one in constants if type(one) is int]
        self.characters = "".join(one for one in constants if type(one) is str)

    def number(self, size: int) -> int:
        """An integer: 0, 1, a constant and its neighbours, then any from -50 to 99 or near a constant."""
        if size < 2:
            return size
        if self.numerals and size < 5:
            return self.numerals[0] + (0, 1, -1)[size - 2]
        return self._near()

    def natural(self, size: int) -> int:
        """An integer that is not negative."""
        return abs(self.number(size))

    def positive(self, size: int) -> int:
        """An integer above 0."""
        return abs(self.number(size)) + 1

    def large(self, size: int) -> int:
        """An integer from 0 to a million."""
        return size if size < 2 else self._between(0, 10 ** self._between(2, 6))

    def small(self, size: int) -> int:
        """An integer from 0 to 12."""
        return size if size < 3 else self._between(2, 12)

    def numbers(self, size: int) -> list[int]:
        """A list of numbers, some of them equal; that of size 0 is empty."""
        values = [self._near() for _ in range(self._length(size))]
        return [values[self._below(len(values))] if self.rng.random() < 0.2 else value for value in values]

    def naturals(self, size: int) -> list[int]:
        """A list of numbers that are not negative."""
        return [abs(value) for value in self.numbers(size)]

    def several(self, size: int) -> list[int]:
        """A list of two numbers or more."""
        return self.numbers(size + 2)

    def ascending(self, size: int) -> list[int]:
        """A list of numbers in ascending order."""
        return sorted(self.numbers(size))

    def few(self, size: int) -> list[int]:
        """A list of numbers from 0 to 9."""
        return [self._below(10) for _ in range(self._length(size))]

    def signs(self, size: int) -> list[int]:
        """A list of numbers from -9 to 9."""
        return [self._between(-9, 9) for _ in range(self._length(size))]

    def word(self, size: int) -> str:
        """Lower-case letters, none for size 0; mostly constants and few others, so that many are equal."""
        letters = (self.characters.replace(" ", "") + "abcde" + LETTERS[self._below(26)]) if size % 3 else LETTERS
        return "".join(letters[self._below(len(letters))] for _ in range(self._length(size)))

    def long(self, size: int) -> str:
        """At least twelve lower-case letters."""
        return "".join(LETTERS[self._below(26)] for _ in range(12 + self._below(5)))

    def text(self, size: int) -> str:
        """Words with one space between them."""
        return " ".join(self._name() for _ in range(self._length(size)))

    def words(self, size: int) -> list[str]:
        """A list of words."""
        return self.text(size).split()

    def marks(self, size: int) -> str:
        """Brackets that are often balanced."""
        if size < 2:
            return "([" * size
        marks: list[str] = []
        for _ in range(self._between(1, 4) * self.scale):
            left, right = ("()", "[]", "{}")[self._below(3)]
            marks = [left, *marks, right] if self.rng.random() < 0.6 else [*marks, left, right]
        if self.rng.random() < 0.3:
            marks[self._below(len(marks))] = "([{}])"[self._below(6)]
        return "".join(marks)

    def bits(self, size: int) -> str:
        """A text of the digits 0 and 1."""
        return "".join("01"[self._below(2)] for _ in range(self._length(size)))

    def pairs(self, size: int) -> list[tuple[int, int]]:
        """A list of pairs whose second number is not below the first."""
        starts = [self._between(0, 60) for _ in range(self._length(size))]
        return [(start, start + self._below(12)) for start in starts]

    def grid(self, size: int) -> list[list[int]]:
        """A list of rows of equal length with digits; at least one row and one column."""
        rows, columns = (1, 1) if size == 0 else (self._between(1, 5), self._between(1, 5))
        return [[self._below(10) for _ in range(columns)] for _ in range(rows)]

    def cells(self, size: int) -> list[str]:
        """A list of rows of equal length of `.` and `#`; at least one row and one column."""
        rows, columns = (1, 1) if size == 0 else (self._between(2, 6), self._between(2, 6))
        return ["".join(".#"[int(self.rng.random() < 0.4)] for _ in range(columns)) for _ in range(rows)]

    def links(self, size: int) -> list[tuple[int, int]]:
        """A list of pairs of different numbers from 0 to 7."""
        pairs = [(self._below(8), self._below(8)) for _ in range(self._length(size))]
        return [pair for pair in pairs if pair[0] != pair[1]]

    def _near(self) -> int:
        if self.numerals and self.rng.random() < 0.5:
            return self.numerals[self._below(len(self.numerals))] + self._between(-3, 3)
        return self._between(-50, 99)

    def _name(self) -> str:
        return "".join("aeilnorst"[self._below(9)] for _ in range(self._between(1, 7)))

    def _length(self, size: int) -> int:
        return size if size < 2 else self._between(2, 9) * self.scale

    def _below(self, bound: int) -> int:
        return int(self.rng.integers(bound))

    def _between(self, least: int, most: int) -> int:
        return int(self.rng.integers(least, most + 1))
