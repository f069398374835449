"""What environments of sums share: levels, tasks, and players that answer in integers."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import numpy as np

from envs.env import Env
from envs.grading.integer import declared_integer
from envs.math.sums import KEY, LEVELS, problem, total
from envs.procedural import enumerated
from envs.types import Message, Task, assistant, final_text, user


class Summing(Env):
    """One expression of a level, whose value is an integer. Tasks and splits are the same in all subclasses."""

    def __init__(self, *, level: int = 1, **limits: Any) -> None:
        super().__init__(**limits)
        if level not in LEVELS:
            raise ValueError(f"level {level!r} is not one of {', '.join(map(str, LEVELS))}")
        self.level = int(level)

    def tasks(self, split: str) -> Sequence[Task]:
        """The problems of the level."""
        return enumerated(split, total(self.level), self._task, key=f"{KEY}:{self.level}")

    def vote(self, action: Message) -> Hashable | None:
        """The declared integer."""
        return declared_integer(final_text(action))

    def oracle(self) -> Iterator[Message]:
        """The value, at once."""
        yield assistant(self.task.answer)

    def random(self, rng: np.random.Generator) -> Message:
        """A number of as many digits as the level's numbers have, or one more."""
        digits = max(1, self.level) + int(rng.integers(2))
        return assistant(str(rng.integers(10**digits)))

    def _task(self, number: int) -> Task:
        shown, value = problem(self.level, number)
        return Task("", (user(f"{shown} = ?"),), str(value), {"level": self.level})
