"""Arithmetic in several tries: each wrong answer is met with a hint."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

from envs.grading.integer import declared_integer
from envs.math.sum_env import Summing
from envs.types import Message, Messages, Outcome, final_text, user

Hint = Literal["order", "digits", "verdict"]
HINTS = get_args(Hint)


class Revise(Summing):
    """Work out an expression, and mend the answer by the hints.

    Observation: `47 + 85 = ?`, then a hint on each wrong answer. `hint="order"`, the default: `low` or `high`, which is
    what the answer was. "digits": the value's digits with `_` for those that the answer has not in their places,
    `1_2`, after `-` if it has one. "verdict", and where all digits are right: `wrong`. A reply that declares no integer
    is met with `?` and costs a try.
    Action: the value, `132`; longer replies are read as `envs.grading.integer.declared_integer` says.
    Reward: 1 for the value, at whichever try, else 0.
    Metrics: `first`, whether the first try was right; `distance`, how far an answer is from the value.
    Episode end: terminated by the value, truncated after `max_turns` tries, by default 3.
    Arguments: `level` and its problems are those of `math/Arithmetic-v0`, in the same splits; `hint`.
    State: the problem, the tries left, and what the hints have told.
    Source and licence: generated. Version history: v0.
    """

    max_turns = 3

    def __init__(self, *, level: int = 1, hint: Hint = "order", **limits: Any) -> None:
        super().__init__(level=level, **limits)
        if hint not in HINTS:
            raise ValueError(f"hint {hint!r} is not one of {', '.join(HINTS)}")
        self.hint = hint

    def start(self) -> Messages:
        """Show the expression."""
        self.tried: set[int] = set()
        return self.task.prompt

    def state(self) -> str:
        """Tries left and the answers ruled out: with "order" the interval they leave."""
        value, known = int(self.task.answer), sorted(self.tried)
        if self.hint == "order":
            low = max((one for one in known if one < value), default="")
            high = min((one for one in known if one > value), default="")
            known = [low, high]  # type: ignore[list-item]
        return f"{self.task.id} {self.max_turns - self.turns} {' '.join(map(str, known))}"

    def reply(self, action: Message) -> Outcome:
        """Compare integers, and say what is wrong."""
        given, value = declared_integer(final_text(action)), int(self.task.answer)
        if given is None:
            return Outcome((user("?"),), valid=False)
        right = given == value
        metrics = {"first": float(right and self.turns == 0), "distance": float(min(abs(given - value), 10**9))}
        if right:
            return Outcome(reward=1.0, terminated=True, success=True, metrics=metrics)
        self.tried.add(given)
        return Outcome((user(self._told(given, value)),), metrics=metrics)

    def attacks(self) -> Sequence[str]:
        """Among others: the right value between wrong ones."""
        value = int(self.task.answer)
        near = " ".join(str(value + i) for i in range(-3, 4))
        own = (near, f"#### {near}", f"{value} or {value + 1}", f"{value}.0", "low", "high", "9" * 10_000)
        return (*super().attacks(), *own)

    def _told(self, given: int, value: int) -> str:
        if self.hint == "order":
            return "low" if given < value else "high"
        shown, wanted = str(abs(given)), str(abs(value))
        shown = shown[-len(wanted) :].rjust(len(wanted), "_")
        marked = "".join(one if one == other else "_" for one, other in zip(shown, wanted, strict=True))
        if self.hint == "verdict" or "_" not in marked:
            return "wrong"
        return f"{'-' if value < 0 else ''}{marked}"
