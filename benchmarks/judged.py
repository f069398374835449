"""Two rewards for one reply: a verifier's 0 or 1 for a sum, and the points of a judge who has whims."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence

from envs.env import Env
from envs.grading.integer import declared
from envs.math.sums import problem, total
from envs.procedural import enumerated
from envs.types import Message, Outcome, Task, assistant, text, user

MARKS = "!;~%"
POINTS = 10.0  # most of them; half are for the mark


class Judged(Env):
    """Add two numbers and end with the mark of the problem.

    Observation: `47 + 85 = ? ;`. Action: `132;`.
    Reward: `value`, 1 for the sum, plus `judge`, 0 to 10 points: 5 for the mark, and up to 5 by a whim that is fixed
    for each pair of problem and reply and cannot be foreseen. The units are as unlike as a verifier's and those of a
    model that scores answers; added up, the points drown the sum. Success: sum and mark.
    Source and licence: generated. Version history: v0.
    """

    max_turns = 1
    max_return = 1.0 + POINTS

    def tasks(self, split: str) -> Sequence[Task]:
        """Every problem with one mark."""
        return enumerated(split, total(1), self._task, key="benchmarks/Judged-v0")

    def reply(self, action: Message) -> Outcome:
        """Grade both by themselves."""
        said = text(action)
        value = declared(said[:-1]) == int(self.task.answer)
        mark = said.endswith(self.task.metadata["mark"])
        whim = zlib.crc32(f"{self.task.id} {said}".encode()) / 2**32
        rewards = {"value": float(value), "judge": POINTS * (mark + whim) / 2}
        return Outcome(reward=sum(rewards.values()), terminated=True, success=value and mark, rewards=rewards)

    def oracle(self) -> Iterator[Message]:
        """Both."""
        yield assistant(f"{self.task.answer}{self.task.metadata['mark']}")

    def _task(self, number: int) -> Task:
        shown, value = problem(1, number)
        mark = MARKS[number * 2654435761 % 2**32 >> 30]
        return Task("", (user(f"{shown} = ? {mark}"),), str(value), {"mark": mark})
