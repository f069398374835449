"""Two rewards for one reply: two sums, of which the first is worth more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from envs.env import Env
from envs.grading.integer import declared_integer
from envs.math.sums import problem, total
from envs.procedural import enumerated
from envs.types import Message, Outcome, Task, assistant, text, user


class Pair(Env):
    """Add two pairs of numbers.

    Observation: `47 + 85, 31 + 12 = ?`. Action: `132, 43`.
    Reward: `first`, `unit` points for the first sum, plus `second`, one point for the other. Both are equally hard, but
    where the points are added up the first drowns the second. Success: both.
    Arguments: `unit`. Source and licence: generated. Version history: v0.
    """

    max_turns = 1

    def __init__(self, *, unit: float = 10.0, **limits: object) -> None:
        super().__init__(**limits)  # type: ignore[arg-type]
        self.unit = float(unit)
        self.max_return = self.unit + 1.0

    def tasks(self, split: str) -> Sequence[Task]:
        """Every problem once as the first."""
        return enumerated(split, total(1), self._task, key="benchmarks/Pair-v0")

    def reply(self, action: Message) -> Outcome:
        """Grade both by themselves."""
        first, _, second = text(action).partition(",")
        hits = [
            declared_integer(said.strip()) == wanted
            for said, wanted in zip((first, second), self._wanted(), strict=True)
        ]
        rewards = {"first": self.unit * hits[0], "second": float(hits[1])}
        return Outcome(reward=sum(rewards.values()), terminated=True, success=all(hits), rewards=rewards)

    def oracle(self) -> Iterator[Message]:
        """Both."""
        yield assistant(str(self.task.answer))

    def _wanted(self) -> tuple[int, int]:
        first, second = str(self.task.answer).split(", ")
        return int(first), int(second)

    def _task(self, number: int) -> Task:
        first, one = problem(1, number)
        second, other = problem(1, (number * 1009 + 7) % total(1))
        return Task("", (user(f"{first}, {second} = ?"),), f"{one}, {other}")
