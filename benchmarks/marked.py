"""Two rewards in one reply: a sum, and the mark that the problem asks for behind it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from envs.env import Env
from envs.grading.integer import declared
from envs.math.sums import problem, total
from envs.procedural import enumerated
from envs.types import Message, Outcome, Task, assistant, text, user

MARKS = "!;~%"


class Marked(Env):
    """Add two numbers and end with the mark of the problem.

    Observation: `47 + 85 = ? ;`. Action: `132;`.
    Reward: `value` for the sum plus `mark`, `unit` times as much, for the mark; both together are 1, and success.
    Arguments: `unit`, what the mark is worth: with more than 1 it drowns the sum where the two are added.
    Source and licence: generated. Version history: v0.
    """

    max_turns = 1

    def __init__(self, *, unit: float = 1.0, **limits: Any) -> None:
        super().__init__(**limits)
        self.unit = float(unit)

    def tasks(self, split: str) -> Sequence[Task]:
        """Every problem with one mark."""
        return enumerated(split, total(1), self._task, key="benchmarks/Marked-v0")

    def reply(self, action: Message) -> Outcome:
        """Grade both by themselves."""
        said = text(action)
        value, mark = (
            float(declared(said[:-1]) == int(self.task.answer)),
            float(said.endswith(self.task.metadata["mark"])),
        )
        rewards = {"value": value / (1 + self.unit), "mark": mark * self.unit / (1 + self.unit)}
        return Outcome(reward=sum(rewards.values()), terminated=True, success=bool(value * mark), rewards=rewards)

    def oracle(self) -> Iterator[Message]:
        """Both."""
        yield assistant(f"{self.task.answer}{self.task.metadata['mark']}")

    def _task(self, number: int) -> Task:
        shown, value = problem(1, number)
        mark = MARKS[number * 2654435761 % 2**32 >> 30]
        return Task("", (user(f"{shown} = ? {mark}"),), str(value), {"mark": mark})
