"""Systems of two or three linear equations with one solution."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from typing import ClassVar

import numpy as np

from envs.episodes.guide import Guide, listing
from envs.grading.exact import member_numbers
from envs.grading.lines import final_lines, last_assignments, only_line
from envs.grading.marks import json_values
from envs.math.generated import GeneratedProblems, Problem, between, format_number
from envs.types import Message, assistant

NAMES = "xyz"
_NAMED = re.compile(r"\(\s*x\s*,\s*y\s*(?:,\s*z\s*)?\)\s*=\s*(?=\(|\\left)")  # (x, y) =
_VALUE = r"[-−]?\s?[0-9]{1,9}(?:\s?/\s?[0-9]{1,9}|\.[0-9]{1,9})?"
_SEPARATOR = r"\s*(?:[,;]|\\\\|\s+and\s+)\s*(?:and\s+)?"
_COLUMN = re.compile(r"\\begin\s?\{([pbB]?matrix)\}([^&]{1,200}?|[^\\]{1,200}?)\\end\s?\{\1\}")
_ROW_END = re.compile(r"\\\\(?:\[[0-9.a-z]*\])?|&")
_LABEL = re.compile(r"(?:[*_]{0,2}(?:(?:the |my )?(?:final )?answer|solution)(?: is|:)?[*_]{0,2}:?\s)?", re.IGNORECASE)
_BOXED_VALUE = re.compile(  # x = \boxed{3}, \boxed{x = 3}
    rf"(?<![\w.)/^+-])(?<![^*\s]\*)(?P<name>[xyz]\s*&?=\s*)(?P<sign>[-−]?)\s*\\boxed\{{\s*(?P<value>{_VALUE}|\\d?frac\{{[0-9]+\}}\{{[0-9]+\}})\s*\}}"
    rf"|\\boxed\{{\s*(?P<equation>[xyz]\s*=\s*(?:{_VALUE}|-?\s?\\d?frac\{{[0-9]+\}}\{{[0-9]+\}}))\s*\}}"
)
_TUPLE = re.compile(r"[*$\\\[(\s]*\([^()]{3,100}\)[*$\\\])\s.]*")


class LinearSystem(GeneratedProblems):
    """Solve a system of linear equations.

    Observation: `2x+3y=7, x-y=1`, one user message. In full style the instructions and `Solve this
    system for x and y: 2x+3y=7, x-y=1`.
    Action: the values in alphabetical order, `(2,1)`, `[2, 1]`, `2, 1`, or with names in any order, `y=1, x=2`; each
    must be a number, not an expression; fractions are written `3/4`. Values may stand on lines of their own. Boxes and
    sentences are read as `envs.grading.math.verify` says.
    Reward: 1 if all values are right, else 0.
    Episode end: after the first reply.
    Levels: 0 two unknowns with factors up to 2, 1, the default, two unknowns with factors up to 5, 2 two unknowns, not
    all of them whole, 3 three unknowns, 4 three unknowns, not all of them whole. Every system has one solution.
    Source and licence: generated. Version history: v0.
    """

    levels: ClassVar = range(5)

    def guide(self) -> Guide:
        """Say what is asked, and in which form."""
        names = NAMES[: self.size]
        return self.answer_guide(
            goal="Solve a system of linear equations. You succeed if the values of all unknowns are right.",
            reply=(
                f"Reply with the values of {listing(names)} in this order, in brackets, separated by commas. "
                "Write a value that is no whole number as a fraction such as -7/3."
            ),
            example=f"({', '.join(('12', '-15', '31/4')[: self.size])})",
        )

    def problem(self, rng: np.random.Generator) -> Problem | None:
        """Draw a system.

        Return None unless it has one solution, in the form of the level, with values not all equal.
        """
        most, bottom = (2 if self.level == 0 else 5), (between(rng, 2, 5) if self.level in (2, 4) else 1)
        tops = [between(rng, -9, 9) for _ in range(self.size)]
        values = [Fraction(top, bottom) for top in tops]
        rows, sides = zip(*(_equation(rng, most, tops, bottom) for _ in tops), strict=True)
        if not _determinant(rows) or (bottom > 1 and all(value.denominator == 1 for value in values)):
            return None
        if len(set(values)) == 1:
            return None
        lines = [f"{_left(row)}={side}" for row, side in zip(rows, sides, strict=True)]
        equations, names = ", ".join(lines), ",".join(NAMES[: self.size])
        answer = f"({','.join(map(format_number, values))})"
        return Problem(
            equations,
            f"Solve {equations}. Answer with the values ({names}).",
            answer,
            sorted(lines),
            statement=f"Solve this system for {listing(NAMES[: self.size])}: {equations}",
        )

    @property
    def size(self) -> int:
        """The number of unknowns."""
        return 3 if self.level > 2 else 2

    def random(self, rng: np.random.Generator) -> Message:
        """Return a whole number from -9 to 9 for each unknown."""
        return assistant(f"({','.join(str(between(rng, -9, 9)) for _ in range(self.size))})")

    def answer_in(self, reply: str) -> str:
        """Return what the end of a reply gives the unknowns, `x = 2, y = 1` or `(2,1)`; else all of the reply."""
        names = NAMES[: self.size]
        if values_of_names := json_values(reply, names):
            return ", ".join(f"{name} = {value}" for name, value in zip(names, values_of_names, strict=True))
        reply = _in_brackets(_without_boxes(reply, self.size), self.size)
        lines = final_lines(reply)
        if lines and _TUPLE.fullmatch(lines[-1]) and last_assignments("\n".join(lines[:-1]), names):
            return lines[-1]
        if values := last_assignments(reply, names):
            return values
        return _NAMED.sub("", reply)

    def wrong_answer(self) -> str:
        """Return the values with 1 added to the first."""
        first, *others = member_numbers(self.task.answer) or [Fraction(0)]
        return f"({','.join(map(format_number, [first + 1, *others]))})"


def _without_boxes(reply: str, size: int) -> str:
    r"""Write `x = 3` for `x = \boxed{3}` and `\boxed{x = 3}` if each unknown has one such box in a reply."""
    if reply.count("\\boxed") != size or len(matches := [*_BOXED_VALUE.finditer(reply)]) != size:
        return reply
    for match in reversed(matches):
        value = match["equation"] or f"{match['name'].replace('&', '')}{match['sign']}{match['value']}"
        is_changed = match["sign"] and match["value"][0] in "-−"
        reply = reply if is_changed else f"{reply[: match.start()]}{value}{reply[match.end() :]}"
    return reply


def _in_brackets(reply: str, size: int) -> str:
    """Write `size` values, in another notation of a tuple, as `(-8, 9)`: `[-8, 9]`, `(-8; 9)`, a column of a matrix.

    So are values in a box, and those without brackets which are all that the line with the answer says.
    """
    values = rf"{_VALUE}(?:{_SEPARATOR}{_VALUE}){{{size - 1}}}"

    def as_tuple(match: re.Match[str]) -> str:
        return f"({', '.join(re.split(_SEPARATOR, match['values'].strip()))})"

    def column_as_tuple(match: re.Match[str]) -> str:
        cells = [cell.strip() for cell in _ROW_END.split(match[2].strip())]
        return f"({', '.join(cells)})" if len(cells) == size and all(cells) else match[0]

    reply = _COLUMN.sub(column_as_tuple, reply)
    for around in (r"(?<!\\)\[\s*{}\s*\]", r"\(\s*{}\s*\)", r"(?<=\\boxed\{{){}(?=\}})"):
        reply = re.sub(around.format(f"(?P<values>{values})"), as_tuple, reply)
    line = only_line(reply)
    bare = re.fullmatch(rf"[$*_`\s]*(?P<values>{values})[$*_`.\s]*", line[_LABEL.match(line).end() :])  # type: ignore[union-attr]
    return as_tuple(bare) if bare else reply


def _equation(rng: np.random.Generator, most: int, tops: list[int], bottom: int) -> tuple[list[int], int]:
    """Draw factors, at least two of them not 0, that give a whole number for the values `tops / bottom`.

    Return both.
    """
    while True:
        row = [between(rng, -most, most) for _ in tops]
        side, rest = divmod(sum(factor * top for factor, top in zip(row, tops, strict=True)), bottom)
        if sum(map(bool, row)) > 1 and not rest:
            return row, side


def _left(row: Sequence[int]) -> str:
    """Format the left side of an equation with these factors."""
    expression = ""
    for factor, name in zip(row, NAMES, strict=False):
        if factor:
            sign = "-" if factor < 0 else "+" if expression else ""
            expression += f"{sign}{'' if abs(factor) == 1 else abs(factor)}{name}"
    return expression


def _determinant(rows: Sequence[Sequence[int]]) -> int:
    if len(rows) == 1:
        return rows[0][0]
    minors = ([[*row[:i], *row[i + 1 :]] for row in rows[1:]] for i in range(len(rows)))
    return sum((-1) ** i * rows[0][i] * _determinant(minor) for i, minor in enumerate(minors))
