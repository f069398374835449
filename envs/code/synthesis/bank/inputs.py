"""Random inputs for functions: small values, edge cases, and values near a function's own constants."""

from __future__ import annotations

from typing import Any

import numpy as np

LETTERS = "abcdefghijklmnopqrstuvwxyz"


class InputSampler:
    """Draws inputs. Each method is a kind of input; `case` is the number of the case, from 0, the simplest.

    Lists and texts are empty for case 0, have one element for case 1, and a random length for later ones, unless a
    method says otherwise.

    Args:
        rng: The generator.
        constants: The constants of the function: numbers near them and letters among them are frequent.
        scale: A factor on the lengths of lists and texts.
    """

    def __init__(self, rng: np.random.Generator, constants: tuple[Any, ...] = (), scale: int = 1) -> None:
        self.rng, self.scale = rng, scale
        self.numerals = [one for one in constants if type(one) is int]
        self.characters = "".join(one for one in constants if type(one) is str)

    def number(self, case: int) -> int:
        """Draw an integer for input number `case`, counted from 0.

        0 for case 0 and 1 for case 1; then c, c + 1 and c - 1 for cases 2 to 4, where c is the first integer of the
        constructor's `constants`. Later cases, and cases 2 to 4 without such a c, are random: from -50 to 99, or near
        one of the integers.
        """
        if case < 2:
            return case
        if self.numerals and case < 5:
            return self.numerals[0] + (0, 1, -1)[case - 2]
        return self._near()

    def natural(self, case: int) -> int:
        """Draw the absolute value of a `number`."""
        return abs(self.number(case))

    def positive(self, case: int) -> int:
        """Draw the absolute value of a `number`, plus 1."""
        return abs(self.number(case)) + 1

    def large(self, case: int) -> int:
        """Draw an integer from 0 to a million; 0 and 1 for the first cases."""
        return case if case < 2 else self._between(0, 10 ** self._between(2, 6))

    def small(self, case: int) -> int:
        """Draw an integer from 0 to 12; 0, 1 and 2 for the first cases."""
        return case if case < 3 else self._between(2, 12)

    def numbers(self, case: int) -> list[int]:
        """Draw a list of integers from -50 to 99 or near a constant, some of them equal; empty for case 0."""
        values = [self._near() for _ in range(self._length(case))]
        return [values[self._below(len(values))] if self.rng.random() < 0.2 else value for value in values]

    def naturals(self, case: int) -> list[int]:
        """Draw a list of integers that are not negative; empty for case 0."""
        return [abs(value) for value in self.numbers(case)]

    def several(self, case: int) -> list[int]:
        """Draw a list of two integers or more, also for case 0."""
        return self.numbers(case + 2)

    def ascending(self, case: int) -> list[int]:
        """Draw a list of integers in ascending order; empty for case 0."""
        return sorted(self.numbers(case))

    def few(self, case: int) -> list[int]:
        """Draw a list of integers from 0 to 9; empty for case 0."""
        return [self._below(10) for _ in range(self._length(case))]

    def signs(self, case: int) -> list[int]:
        """Draw a list of integers from -9 to 9: empty for case 0, one for case 1, then a random length."""
        return [self._between(-9, 9) for _ in range(self._length(case))]

    def word(self, case: int) -> str:
        """Draw lower-case letters, none for case 0; mostly constants and few others, so that many are equal."""
        letters = (self.characters.replace(" ", "") + "abcde" + LETTERS[self._below(26)]) if case % 3 else LETTERS
        return "".join(letters[self._below(len(letters))] for _ in range(self._length(case)))

    def long(self, case: int) -> str:
        """Draw a word of 12 to 16 lower-case letters; `case` and `scale` do not count."""
        return "".join(LETTERS[self._below(26)] for _ in range(12 + self._below(5)))

    def text(self, case: int) -> str:
        """Draw lower-case words with one space between them; no word for case 0."""
        return " ".join(self._name() for _ in range(self._length(case)))

    def words(self, case: int) -> list[str]:
        """Draw a list of lower-case words; empty for case 0."""
        return self.text(case).split()

    def marks(self, case: int) -> str:
        """Draw a text of brackets `()[]{}` that are often balanced: "" for case 0, `([` for case 1."""
        if case < 2:
            return "([" * case
        marks: list[str] = []
        for _ in range(self._between(1, 4) * self.scale):
            left, right = ("()", "[]", "{}")[self._below(3)]
            marks = [left, *marks, right] if self.rng.random() < 0.6 else [*marks, left, right]
        if self.rng.random() < 0.3:
            marks[self._below(len(marks))] = "([{}])"[self._below(6)]
        return "".join(marks)

    def bits(self, case: int) -> str:
        """Draw a text of the digits 0 and 1; "" for case 0."""
        return "".join("01"[self._below(2)] for _ in range(self._length(case)))

    def pairs(self, case: int) -> list[tuple[int, int]]:
        """Draw a list of pairs of integers whose second is not below the first; empty for case 0."""
        starts = [self._between(0, 60) for _ in range(self._length(case))]
        return [(start, start + self._below(12)) for start in starts]

    def grid(self, case: int) -> list[list[int]]:
        """Draw a list of rows of equal length with digits as integers; one row and one column for case 0."""
        rows, columns = (1, 1) if case == 0 else (self._between(1, 5), self._between(1, 5))
        return [[self._below(10) for _ in range(columns)] for _ in range(rows)]

    def cells(self, case: int) -> list[str]:
        """Draw a list of rows of equal length, texts of `.` and `#`; one row and one column for case 0."""
        rows, columns = (1, 1) if case == 0 else (self._between(2, 6), self._between(2, 6))
        return ["".join(".#"[int(self.rng.random() < 0.4)] for _ in range(columns)) for _ in range(rows)]

    def links(self, case: int) -> list[tuple[int, int]]:
        """Draw a list of pairs of different integers from 0 to 7; empty for case 0."""
        pairs = [(self._below(8), self._below(8)) for _ in range(self._length(case))]
        return [pair for pair in pairs if pair[0] != pair[1]]

    def _near(self) -> int:
        if self.numerals and self.rng.random() < 0.5:
            return self.numerals[self._below(len(self.numerals))] + self._between(-3, 3)
        return self._between(-50, 99)

    def _name(self) -> str:
        return "".join("aeilnorst"[self._below(9)] for _ in range(self._between(1, 7)))

    def _length(self, case: int) -> int:
        return case if case < 2 else self._between(2, 9) * self.scale

    def _below(self, bound: int) -> int:
        return int(self.rng.integers(bound))

    def _between(self, least: int, most: int) -> int:
        return int(self.rng.integers(least, most + 1))
