"""Arithmetic in several tries, with a hint after each wrong answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

from envs.episodes.guide import Guide, replies_left
from envs.grading.integer import declared_integer
from envs.math.arithmetic_env import EXAMPLE, PRECEDENCE, ArithmeticEnv
from envs.types import Message, Messages, Outcome, final_text, user

Hint = Literal["order", "digits", "verdict"]
HINTS = get_args(Hint)


class Revise(ArithmeticEnv):
    """Work out an expression, and correct the answer with the help of hints.

    Observation: `47 + 85 = ?`, then a hint on each wrong answer. `hint="order"`, the default: `low` or `high` for an
    answer that is too low or too high. "digits": the value's digits with `_` for those that the answer does not have in
    their places, `1_2`, after `-` if the value has one. "verdict", and "digits" where all digits are right: `wrong`. A
    reply that declares no integer is answered with `?` and costs a try.
    In full style the hints are sentences.
    Action: the value, `132`; longer replies are read as `envs.grading.integer.declared_integer` says.
    Reward: 1 for the value, in any try, else 0.
    Metrics: `first`, whether the first try was right; `distance`, how far an answer is from the value.
    Episode end: terminated by the value, truncated after `max_turns` tries, by default 3.
    Arguments: `level` and its problems are those of `math/Arithmetic-v0`, in the same splits; `hint`.
    State: the problem, the tries left, and the information in the hints.
    Source and licence: generated. Version history: v0.
    """

    max_turns = 3

    def __init__(self, *, level: int = 1, hint: Hint = "order", **limits: Any) -> None:
        super().__init__(level=level, **limits)
        if hint not in HINTS:
            raise ValueError(f"hint {hint!r} is not one of {', '.join(HINTS)}")
        self.hint = hint

    def start(self) -> Messages:
        """Return the expression as the prompt."""
        self.guesses: set[int] = set()
        return self.task.prompt

    def guide(self) -> Guide:
        """Say what is asked, in which form, and what the hints mean."""
        hints = {
            "order": "After a wrong answer you are told whether it is too low or too high.",
            "digits": (
                "After a wrong answer you are shown the digits of the value, with `_` for each digit that your answer "
                "does not have in this place, counted from the right."
            ),
            "verdict": "After a wrong answer you are told that it is wrong.",
        }
        return Guide(
            goal="Work out the value of an arithmetic expression. You succeed if one of your answers is its value.",
            rules=f"{PRECEDENCE if self.level == 3 else ''} {hints[self.hint]} You may then answer again.".strip(),
            reply="Reply with the value, a whole number in digits; it may be negative. Give one answer per reply.",
            example=EXAMPLE,
            ending="The episode ends with the right answer.",
            invalid="A reply that states no whole number, or several, uses up a reply.",
            heading="The expression:",
        )

    def state(self) -> str:
        """Return the tries left and the wrong answers; with "order" only the interval that they leave."""
        value, bounds = int(self.task.answer), sorted(self.guesses)
        if self.hint == "order":
            low = max((one for one in bounds if one < value), default="")
            high = min((one for one in bounds if one > value), default="")
            bounds = [low, high]  # type: ignore[list-item]
        return f"{self.task.id} {self.max_turns - self.turns} {' '.join(map(str, bounds))}"

    def reply(self, action: Message) -> Outcome:
        """Compare the declared integer with the value; answer a wrong one with a hint."""
        guess, value = declared_integer(final_text(action)), int(self.task.answer)
        if guess is None:
            fault = "Your reply does not state exactly one whole number."
            return Outcome((user(self.correction(fault, short="?")),), valid=False)
        right = guess == value
        metrics = {"first": float(right and self.turns == 0), "distance": float(min(abs(guess - value), 10**9))}
        if right:
            return Outcome(reward=1.0, terminated=True, success=True, metrics=metrics)
        self.guesses.add(guess)
        hint = self._format_hint(guess, value)
        if self.style == "full":
            hint = f"{_full_hint(guess, hint)} {replies_left(self.max_turns - self.turns - 1)}"
        return Outcome((user(hint),), metrics=metrics)

    def attacks(self) -> Sequence[str]:
        """Return replies that must earn 0, among them the right value among wrong ones."""
        value = int(self.task.answer)
        near = " ".join(str(value + i) for i in range(-3, 4))
        integer_attacks = (near, f"#### {near}", f"{value} or {value + 1}", f"{value}.0", "low", "high", "9" * 10_000)
        return (*super().attacks(), *integer_attacks)

    def _format_hint(self, guess: int, value: int) -> str:
        if self.hint == "order":
            return "low" if guess < value else "high"
        digits, gold_digits = str(abs(guess)), str(abs(value))
        digits = digits[-len(gold_digits) :].rjust(len(gold_digits), "_")
        mask = "".join(one if one == other else "_" for one, other in zip(digits, gold_digits, strict=True))
        if self.hint == "verdict" or "_" not in mask:
            return "wrong"
        return f"{'-' if value < 0 else ''}{mask}"


def _full_hint(guess: int, hint: str) -> str:
    """Write a hint of the short style as a sentence."""
    if hint in ("low", "high"):
        return f"{guess} is too {hint}."
    return f"{guess} is wrong." + ("" if hint == "wrong" else f" Its digits that are right: `{hint}`.")
