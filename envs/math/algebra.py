"""Equations in one unknown, from one step to quadratics."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from envs.episodes.guide import Guide
from envs.grading.exact import member_numbers
from envs.grading.number import parse_number
from envs.math.generated import GeneratedProblems, Problem, between, format_number, one_of
from envs.types import Message, Outcome, final_text

_WRAPPED = re.compile(r"\\(?:math(?:bf|rm|it)|text(?:bf|it)?|boldsymbol|boxed)\s*\{([^{}]*)\}")
_PLAIN = (
    (re.compile(r"\\(?:cdot|times)\b|[·×]"), "*"),
    (re.compile(r"\\(?:[RrL]\w*row|implies|to)\b|[⇒→]"), " so "),
    (re.compile(r"−"), "-"),
    (re.compile(r"\\[,;:!> ]|\\q?quad\b|[&~]"), " "),
    (re.compile(r"\*\*|\\[()\[\]]|[$`\"]|(?<=:)(?==)|\bStep [0-9]+"), ""),
)
_LABEL = re.compile(r"(?:^|(?<=\s))(?:[-*•>]|\(?(?:[0-9]|[a-h])[.)])\s+")  # of a list's item
_EXPRESSION = re.compile(r"(?:[0-9.]|[-+*/^()_\s]|(?<![A-Za-z\\])[A-Za-z](?![A-Za-z]))+$")
_REACH = 200  # characters read before an equals sign
_MULTIPLIES = re.compile(r"\b(?:minus|negative|times|twice|half|double|triple)\s*$", re.IGNORECASE)


class Algebra(GeneratedProblems):
    """Solve an equation for x.

    Observation: `3x + 4 = 19`, one user message. In full style the instructions and `Solve for x: 3x + 4 = 19`.
    Action: the solution, `5`, `-7/3`, or at level 4 all of them, `-2, 5`; `x = 5`, boxes and sentences are read as
    `envs.grading.math.verify` says. A solution must be a number, not an expression, and of x: `4x = 20` states none.
    Reward: 1 if the value, or at level 4 the set of values, is right, else 0.
    Episode end: after the first reply.
    Levels: 0 one step (`x + 17 = 40`); 1, the default, two steps; 2 the unknown on both sides; 3 brackets, and
    solutions that may be fractions; 4 quadratics with whole solutions. At levels 0 to 3 the digits
    of the solution do not occur in the equation.
    Source and licence: generated. Version history: v0.
    """

    levels: ClassVar = range(5)

    def guide(self) -> Guide:
        """Say what is asked, and in which form."""
        if self.level == 4:
            return self.answer_guide(
                goal="Find all real solutions of an equation. You succeed if you list every solution and no other.",
                rules="x^2 means x squared.",
                reply="Reply with the solutions, separated by commas, in any order, and with each of them once.",
                example="-45, 250",
            )
        return self.answer_guide(
            goal="Solve an equation for x. You succeed if your value of x is right.",
            reply="Reply with the value of x, a number; write one that is no whole number as a fraction such as -7/3.",
            example="x = 250",
        )

    def problem(self, rng: np.random.Generator) -> Problem | None:
        """Draw an equation; return None if its text contains the solution (levels 0 to 3)."""
        equation, solutions = (_one_step, _two_steps, _both_sides, _brackets, _quadratic)[self.level](rng)
        answer = ", ".join(map(format_number, solutions))
        if self.level < 4 and answer.lstrip("-") in _numbers(equation):
            return None
        task = "Find all solutions" if self.level == 4 else "Solve for x"
        return Problem(equation, f"{task}: {equation}", answer, equation)

    def reply(self, action: Message) -> Outcome:
        """Grade the reply; it is invalid if its last line equates the solution with something else than x: `4x = 5`."""
        line, value = final_text(action).rstrip().rpartition("\n")[2], parse_number(str(self.task.answer))
        if self.level < 4 and states_another_value(line, value):
            return Outcome(reward=0.0, terminated=True, success=False, valid=False)
        return super().reply(action)

    def random(self, rng: np.random.Generator) -> Any:
        """Return a whole number from -99 to 99; at level 4 two."""
        first = super().random(rng)
        if self.level == 4:
            first["content"] += f", {super().random(rng)['content']}"
        return first

    def wrong_answer(self) -> str:
        """Return the solutions with 101 added to the first."""
        first, *others = member_numbers(self.task.answer) or [Fraction(0)]
        return ", ".join(map(format_number, [first + 101, *others]))


def states_another_value(line: str, value: Fraction | None) -> bool:
    """Whether all that a line does with `value` is to equate it with something else than x: `4x = 20`, `y = 5`.

    False where the line does not end with `= value`, and where anything that is equated on it is x: `x = 10/2 = 5`.
    """
    for pattern, plain in _PLAIN:
        line = pattern.sub(plain, line)
    line = _WRAPPED.sub(r" \1 ", line)
    *sides, last = line.split("=")
    if not sides or parse_number(last.strip(" .)]}*_")) != value or value is None:
        return False
    subjects = []
    for side in (_LABEL.sub("", side[-_REACH:]) for side in sides):
        expression = _EXPRESSION.search(side)
        words = side[: -len(expression[0])] if expression else side
        text = expression[0].strip(" *_:.") if expression else ""
        subjects.append("another" if _MULTIPLIES.search(words) else text.lower().strip("()"))
    return "x" not in subjects and any(re.search("[a-z]", subject) for subject in subjects)


Equation = tuple[str, list[Fraction]]


def _one_step(rng: np.random.Generator) -> Equation:
    x, a = between(rng, 1, 99), between(rng, 2, 60)
    equation = one_of(rng, f"x + {a} = {x + a}", f"x - {a} = {x - a}", f"{a}x = {a * x}")
    return equation, [Fraction(x)]


def _two_steps(rng: np.random.Generator) -> Equation:
    x, a, b = between(rng, -30, 30), between(rng, 2, 9), between(rng, -30, 30)
    return f"{_sum((a, 'x'), (b, ''))} = {a * x + b}", [Fraction(x)]


def _both_sides(rng: np.random.Generator) -> Equation:
    x, a, b, c = between(rng, -30, 30), between(rng, 2, 9), between(rng, -30, 30), between(rng, -9, 9)
    if c in (0, a):
        return _both_sides(rng)
    return f"{_sum((a, 'x'), (b, ''))} = {_sum((c, 'x'), (a * x + b - c * x, ''))}", [Fraction(x)]


def _brackets(rng: np.random.Generator) -> Equation:
    a, b, c, d = between(rng, 2, 9), between(rng, -12, 12), between(rng, -9, 9), between(rng, -30, 30)
    if a == c or b == 0:
        return _brackets(rng)
    return f"{a}({_sum((1, 'x'), (b, ''))}) = {_sum((c, 'x'), (d, ''))}", [Fraction(d - a * b, a - c)]


def _quadratic(rng: np.random.Generator) -> Equation:
    lead, p, q = between(rng, 1, 5), between(rng, -30, 30), between(rng, -30, 30)
    left_side = _sum((lead, "x^2"), (-lead * (p + q), "x"), (lead * p * q, ""))
    return f"{left_side} = 0", [Fraction(root) for root in sorted({p, q})]


def _sum(*terms: tuple[int, str]) -> str:
    """Format (factor, variable) terms as a sum such as `3x^2 - x + 4`; terms of factor 0 are left out."""
    expression = ""
    for factor, letters in terms:
        if not factor:
            continue
        size = "" if abs(factor) == 1 and letters else str(abs(factor))
        sign = ("-" if factor < 0 else "") if not expression else (" - " if factor < 0 else " + ")
        expression += f"{sign}{size}{letters}"
    return expression or "0"


def _numbers(equation: str) -> set[str]:
    """Return the numbers, as strings of digits, that occur in `equation`."""
    return set("".join(char if char.isdigit() else " " for char in equation).split())
