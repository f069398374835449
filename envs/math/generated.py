"""What the generated one-reply environments share: levels, splits, grading by value, attempts to cheat."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple

import numpy as np

from envs.grading.number import parse_number
from envs.math.single_answer import Answered
from envs.procedural import drawn
from envs.types import Message, Task, assistant, text, user

LENGTHS = {"train": 20_000, "val": 200, "test": 200}


class Problem(NamedTuple):
    """A short prompt, the same in words for models that read English, the right answer, and what makes it the same.

    Problems with an equal `same` (JSON-able) count as one and stand in one split only. `unit` is what is asked for.
    """

    shown: str
    words: str
    answer: str
    same: Any
    unit: str = ""


class Question(Answered):
    """A problem that one reply answers.

    A subclass gives its `levels` and defines `problem`. With `words` the prompt is a sentence for models that read
    English; the problems are the same ones.
    """

    levels: ClassVar[Sequence[int]] = ()

    def __init__(self, *, level: int = 1, words: bool = False, **limits: Any) -> None:
        super().__init__(**limits)
        if level not in self.levels:
            raise ValueError(f"level {level!r} is not one of {', '.join(map(str, self.levels))}")
        self.level, self.words = int(level), bool(words)

    @abstractmethod
    def problem(self, rng: np.random.Generator) -> Problem | None:
        """A problem of `self.level`; None to draw again."""

    def tasks(self, split: str) -> Sequence[Task]:
        """Problems of the level, drawn; equal for any `words`."""
        key = f"{type(self).__name__}:{self.level}"
        return drawn(split, LENGTHS[split], self._task, key=key, same=lambda task: task.metadata["same"])

    def oracle(self) -> Iterator[Message]:
        """The answer, and nothing else."""
        yield assistant(self.task.answer)

    def random(self, rng: np.random.Generator) -> Message:
        """A whole number from -99 to 99."""
        return assistant(str(rng.integers(-99, 100)))

    def wrong(self) -> str:
        """An answer of the right form that is not right."""
        return written((parse_number(self.task.answer) or Fraction(0)) + 1)

    def attacks(self) -> Sequence[str]:
        """Among others: the right answer beside a wrong one, taken back, or in a form that is not worked out."""
        right, wrong = self.task.answer, self.wrong()
        return (
            *super().attacks(),
            text(self.task.prompt[0]),
            wrong,
            f"{right} or {wrong}",
            f"{wrong}\n{right}",
            f"{right}\n{wrong}",
            f"\\boxed{{{wrong}}} \\boxed{{{right}}}",
            f"#### {right}\n#### {wrong}",
            f"The answer is not {right}.",
            f"{right} is wrong",
            f"\\boxed{{{right} \\pm 1}}",
            f"\\boxed{{{right}9^{{9^{{9}}}}}}",
            "".join(chr(ord(char) + 0xFEE0) if char.isdigit() else char for char in right),
            " ".join(map(str, range(-100, 101))),
            "9**9**9",
        )

    def _task(self, rng: np.random.Generator) -> Task:
        while (problem := self.problem(rng)) is None:
            pass
        about = {"level": self.level, "same": problem.same} | ({"unit": problem.unit} if problem.unit else {})
        return Task("", (user(problem.words if self.words else problem.shown),), problem.answer, about)


def written(value: Fraction | int) -> str:
    """`5/6`, `-3`."""
    return str(value)


def one_of(rng: np.random.Generator, *choices: Any) -> Any:
    """One of the choices, each equally likely."""
    return choices[int(rng.integers(len(choices)))]


def between(rng: np.random.Generator, least: int, most: int) -> int:
    """A whole number from `least` to `most`, both included."""
    return int(rng.integers(least, most + 1))
