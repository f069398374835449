"""Base class of environments with arithmetic problems: levels, tasks, the oracle and random replies."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import numpy as np

from envs.env import Env
from envs.grading.integer import declared_integer
from envs.math.sums import KEY, LEVELS, problem, total
from envs.procedural import enumerated
from envs.types import Message, Task, assistant, final_text, user

EXAMPLE = "123456"  # a reply in the right form, larger than the value of any expression
PRECEDENCE = "Multiplication (*) comes before addition (+) and subtraction (-)."


class ArithmeticEnv(Env):
    """Expressions whose value is an integer. Tasks and splits are the same in all subclasses.

    A subclass defines `reply`.

    Args:
        level: Difficulty, one of `envs.math.sums.LEVELS`. Raises ValueError for another one.
        **limits: Arguments of `Env`: `style`, `max_turns`, `max_seconds`, `render_mode`.
    """

    def __init__(self, *, level: int = 1, **limits: Any) -> None:
        super().__init__(**limits)
        if level not in LEVELS:
            raise ValueError(f"level {level!r} is not one of {', '.join(map(str, LEVELS))}")
        self.level = int(level)

    def tasks(self, split: str) -> Sequence[Task]:
        """Return the problems of the level that belong to the split."""
        return enumerated(split, total(self.level), self._task, key=f"{KEY}:{self.level}")

    def vote(self, action: Message) -> Hashable | None:
        """Return the integer that the reply declares; None if it declares none."""
        return declared_integer(final_text(action))

    def oracle(self) -> Iterator[Message]:
        """Yield the value of the expression as the first reply."""
        yield assistant(self.task.answer)

    def random(self, rng: np.random.Generator) -> Message:
        """Return a random number with at most one digit more than the numbers of the level."""
        digits = max(1, self.level) + int(rng.integers(2))
        return assistant(str(rng.integers(10**digits)))

    def _task(self, number: int) -> Task:
        expression, value = problem(self.level, number)
        return Task("", (user(f"{expression} = ?"),), str(value), {"level": self.level})
