"""Sums, differences, products and quotients of fractions."""

from __future__ import annotations

from fractions import Fraction
from math import lcm
from typing import Any, ClassVar

import numpy as np

from envs.episodes.guide import Guide
from envs.grading.declaration import find_declaration, number_in_phrase
from envs.grading.number import plain_fractions, strip_markup
from envs.math.generated import GeneratedProblems, Problem, between, format_number, one_of
from envs.types import Message, Outcome, assistant, final_text

Operand = tuple[int, int]  # numerator and denominator, perhaps not in lowest terms


class Fractions(GeneratedProblems):
    """Work out an expression of fractions.

    Observation: `1/2 + 1/3 = ?`, one user message. In full style the instructions and `Work out 1/2 + 1/3.`
    Action: the value, `5/6`; `10/12`, `0.5` and `1 1/2` are read as numbers, boxes and sentences as
    `envs.grading.math.verify` says. An unevaluated expression is wrong.
    Reward: 1 if the value is right, else 0. With `lowest`, it must also be written in lowest terms.
    Metrics: `lowest`, whether the declared number is written in lowest terms.
    Episode end: after the first reply.
    Levels: 0 sums and differences with one denominator; 1, the default, with two denominators up to 12; 2 all four
    operations; 3 three fractions and two operators with the usual precedence.
    Arguments: `lowest`.
    Source and licence: generated. Version history: v0.
    """

    levels: ClassVar = range(4)

    def __init__(self, *, level: int = 1, lowest: bool = False, **limits: Any) -> None:
        super().__init__(level=level, **limits)
        self.lowest = bool(lowest)

    def guide(self) -> Guide:
        """Say what is asked, and in which form."""
        notation = "The fraction must be in lowest terms." if self.lowest else "It need not be in lowest terms."
        return self.answer_guide(
            goal=(
                "Work out the value of an expression of fractions. You succeed if your answer has exactly this value"
                f"{' and is a fraction in lowest terms' * self.lowest}."
            ),
            rules="Multiplication (*) and division (/) come before addition and subtraction." * (self.level > 1),
            reply=f"Reply with the value as a fraction or a whole number. {notation}",
            example="7/1000",
        )

    def problem(self, rng: np.random.Generator) -> Problem | None:
        """Draw an expression; return None if its value is 0, occurs in it, or has a denominator above 999."""
        operators = [one_of(rng, *("+-" if self.level < 2 else "+-*/")) for _ in range(2 if self.level == 3 else 1)]
        operands = _operands(rng, self.level, len(operators) + 1)
        value = _value([Fraction(*operand) for operand in operands], operators)
        if value in [0, *(Fraction(*operand) for operand in operands)] or value.denominator > 999:
            return None
        expression = f"{operands[0][0]}/{operands[0][1]}"
        for operator, (top, bottom) in zip(operators, operands[1:], strict=True):
            expression += f" {operator} {f'({top}/{bottom})' if operator == '/' else f'{top}/{bottom}'}"
        is_symmetric = operators in (["+"], ["*"])
        words = f"Work out {expression}. Answer with a fraction in lowest terms."
        return Problem(
            f"{expression} = ?",
            words,
            format_number(value),
            [operators, sorted(operands) if is_symmetric else operands],
            statement=f"Work out {expression}",
        )

    def reply(self, action: Message) -> Outcome:
        """Compare the values and, with `lowest`, check the notation of the declared number."""
        outcome = super().reply(action)
        lowest = _is_lowest(final_text(action))
        right = outcome.success and (lowest or not self.lowest)
        return Outcome(
            reward=float(right), terminated=True, success=right, valid=outcome.valid, metrics={"lowest": lowest}
        )

    def random(self, rng: np.random.Generator) -> Message:
        """Return a fraction with a numerator from -40 to 40 and a denominator from 2 to 40."""
        return assistant(f"{between(rng, -40, 40)}/{between(rng, 2, 40)}")


def _operands(rng: np.random.Generator, level: int, number: int) -> list[Operand]:
    if level == 0:
        bottom = between(rng, 3, 40)
        return [(between(rng, 1, bottom - 1), bottom) for _ in range(number)]
    while True:
        operands = [(between(rng, 1, bottom - 1), bottom) for bottom in (between(rng, 2, 12) for _ in range(number))]
        bottoms = [bottom for _, bottom in operands]
        if len(set(bottoms)) > 1 and lcm(*bottoms) <= 132:
            return operands


def _value(values: list[Fraction], operators: list[str]) -> Fraction:
    """Evaluate from left to right, `*` and `/` before `+` and `-`."""
    terms = [values[0]]
    for operator, value in zip(operators, values[1:], strict=True):
        if operator in "*/":
            terms[-1] *= value if operator == "*" else 1 / value
        else:
            terms.append(value if operator == "+" else -value)
    return sum(terms, Fraction(0))


def _is_lowest(reply: str) -> bool:
    """Whether the declared number is written as `str` writes a Fraction, in lowest terms."""
    declaration = find_declaration(reply).text
    value = number_in_phrase(declaration)
    return value is not None and plain_fractions(strip_markup(declaration)).strip("(). ") == format_number(value)
