"""Sums, differences and products of integers, from one digit to three."""

from __future__ import annotations

from collections.abc import Sequence

from envs.episodes.guide import Guide
from envs.grading.integer import declared_integer
from envs.math.arithmetic_env import EXAMPLE, PRECEDENCE, ArithmeticEnv
from envs.types import Message, Outcome, final_text


class Arithmetic(ArithmeticEnv):
    """Work out one expression.

    Observation: `47 + 85 = ?`, one user message; in full style after the instructions.
    Action: the value, `132`; longer replies are read as `envs.grading.integer.declared_integer` says.
    Reward: 1 if the declared integer is the value, else 0.
    Episode end: after the first reply.
    Levels: 0 sums of two numbers from 0 to 9 but 0 + 0 (54 problems); 1, the default, sums of two numbers from 1 to
    99 of which at least one has two digits (4 905); 2 sums and differences of two numbers from 10 to 99, results may be
    negative (8 190); 3 two operators of + - * with the usual precedence, each pair of operators equally often, on
    numbers from 100 to 999, the right factor of a product from 2 to 9 (518 400). At levels 0 to 2 a problem and the
    one with exchanged operands count as one, and only one of them is used.
    Source and licence: generated. Version history: v0.
    """

    def guide(self) -> Guide:
        """Say what is asked, and in which form."""
        return Guide(
            goal="Work out the value of an arithmetic expression. You succeed if your answer is exactly its value.",
            rules=PRECEDENCE if self.level == 3 else "",
            reply="Reply with the value, a whole number in digits; it may be negative.",
            example=EXAMPLE,
            invalid="A reply that states no whole number, or several, counts as wrong.",
            heading="The expression:",
        )

    def reply(self, action: Message) -> Outcome:
        """Compare the declared integer with the value and end the episode; floats are never compared."""
        value = declared_integer(final_text(action))
        right = value is not None and value == int(self.task.answer)
        return Outcome(reward=float(right), terminated=True, success=right, valid=value is not None)

    def attacks(self) -> Sequence[str]:
        """Return replies that must earn 0.

        Among them are the right value among wrong ones, and in forms that are no integers.
        """
        value = int(self.task.answer)
        near = " ".join(str(value + i) for i in range(-3, 4))
        return (
            *super().attacks(),
            near,
            f"{value} or {value + 1}",
            f"#### {near}",
            f"{value}.0",
            f"{value}e0",
            f"0x{abs(value):x}.",
            "9" * 10_000,
            " ".join(map(str, range(200))),
        )
