"""Values of plans, their types, and the functions behind the tools that need more than an expression."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any

MAX_TEXT, MAX_ENTRIES, MAX_NUMBER = 5_000, 500, 10**12  # what a value may hold
Table = list[dict[str, Any]]
TABLES: dict[str, Table] = {
    "staff": [
        {"name": "Ines", "city": "Porto", "age": 41},
        {"name": "Kofi", "city": "Ghent", "age": 29},
        {"name": "Lars", "city": "Porto", "age": 35},
        {"name": "Mara", "city": "Turin", "age": 52},
        {"name": "Petr", "city": "Ghent", "age": 47},
        {"name": "Tara", "city": "Porto", "age": 26},
    ],
    "stock": [
        {"item": "lamp", "shelf": "north", "pieces": 14},
        {"item": "chair", "shelf": "south", "pieces": 6},
        {"item": "torch", "shelf": "north", "pieces": 31},
        {"item": "locker", "shelf": "east", "pieces": 3},
        {"item": "ladder", "shelf": "south", "pieces": 9},
    ],
    "trips": [
        {"rider": "Edda", "goal": "lake", "distance": 12},
        {"rider": "Nils", "goal": "coast", "distance": 48},
        {"rider": "Rosa", "goal": "lake", "distance": 17},
        {"rider": "Omar", "goal": "forest", "distance": 8},
        {"rider": "Hana", "goal": "coast", "distance": 39},
        {"rider": "Quin", "goal": "forest", "distance": 21},
    ],
}


class ValueFault(ValueError):
    """Values for which a tool has no result; the message says why."""


def fits(value: Any, kind: str) -> bool:
    """Whether a value is of a type, and no larger than values may be."""
    if kind == "text":
        return isinstance(value, str) and len(value) <= MAX_TEXT
    if kind == "number":
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return is_number and abs(value) <= MAX_NUMBER and isfinite(value)
    if not isinstance(value, list) or len(value) > MAX_ENTRIES:
        return False
    if kind == "list":
        return all(fits(each, "text") or fits(each, "number") for each in value)
    return all(isinstance(row, dict) and all(isinstance(key, str) for key in row) and _is_row(row) for row in value)


def _is_row(row: Mapping[str, Any]) -> bool:
    return len(row) <= MAX_ENTRIES and fits([*row.values()], "list")


def spell_digits(number: float) -> str:
    """Each digit of 0 to 9999 as a word. Raises ValueFault where there is none."""
    if not 0 <= _whole(number) < 10_000:
        raise ValueFault("only 0 to 9999 can be spelled")
    digits = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
    return " ".join(digits[int(digit)] for digit in str(_whole(number)))


def _whole(number: float) -> int:
    if number != int(number):
        raise ValueFault(f"{number} is no whole number")
    return int(number)


def as_length(number: float) -> int:
    """A number of words, at least 1. Raises ValueFault where there is none."""
    if _whole(number) < 1:
        raise ValueFault(f"{number} is less than 1")
    return int(number)


def remainder(first: float, second: float) -> float:
    """The remainder of a division. Raises ValueFault where there is none."""
    if second == 0:
        raise ValueFault("the divisor is 0")
    return first % second


def take_entry(entries: list[Any], number: float) -> str:
    """Entry `number` of a list, from 1, as a text. Raises ValueFault where there is none."""
    if not 1 <= _whole(number) <= len(entries):
        raise ValueFault(f"entry {number} of a list of {len(entries)}")
    return str(entries[int(number) - 1])


def longest_entry(entries: list[Any]) -> str:
    """The longest entry of a list. Raises ValueFault where there is none."""
    if not entries:
        raise ValueFault("the list is empty")
    return max(map(str, entries), key=len)


def count_letter(text: str, letter: str) -> int:
    """How often a letter is in a text, in either case. Raises ValueFault where there is none."""
    if len(letter) != 1:
        raise ValueFault(f"{letter[:20]!r} is not one letter")
    return text.lower().count(letter.lower())


def load_table(name: str) -> Table:
    """A copy of a table. Raises ValueFault where there is none."""
    if name not in TABLES:
        raise ValueFault(f"there is no table {name[:40]!r}; there are {', '.join(TABLES)}")
    return [dict(row) for row in TABLES[name]]


def column_values(table: Table, column: str) -> list[Any]:
    """A column of a table. Raises ValueFault where there is none."""
    if not all(column in row for row in table):
        names = ", ".join(dict.fromkeys(key for row in table for key in row))
        raise ValueFault(f"the table has no column {column[:40]!r}; it has {names[:200]}")
    return [row[column] for row in table]


def column_numbers(table: Table, column: str) -> list[float]:
    """A column that holds numbers. Raises ValueFault where there is none."""
    values = column_values(table, column)
    if not all(fits(value, "number") for value in values):
        raise ValueFault(f"the column {column[:40]!r} holds no numbers")
    return values


def keep_rows(table: Table, column: str, value: str) -> Table:
    """The rows with a value in a column, compared as texts."""
    return [row for row, cell in zip(table, column_values(table, column), strict=True) if str(cell) == value]


def rows_above(table: Table, column: str, number: float) -> Table:
    """The rows with more than a number in a column."""
    return [row for row, cell in zip(table, column_numbers(table, column), strict=True) if cell > number]


def sort_rows(table: Table, column: str) -> Table:
    """The rows by a column."""
    cells = column_values(table, column)
    order = sorted(range(len(table)), key=lambda place: (isinstance(cells[place], str), cells[place]))
    return [table[place] for place in order]


def replace_word(text: str, old: str, new: str) -> str:
    """A text with every word `old` replaced."""
    if not old:
        raise ValueFault("the word to replace is empty")
    return " ".join(new if word == old else word for word in text.split())
