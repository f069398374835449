"""Base class of environments with generated problems that one reply answers: levels, splits, prompts and attacks."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple

import numpy as np

from envs.episodes.guide import Style
from envs.grading.number import parse_number
from envs.math.single_answer import SingleAnswer
from envs.procedural import drawn
from envs.types import Message, Task, assistant, text, user

LENGTHS = {"train": 20_000, "val": 200, "test": 200}


class Problem(NamedTuple):
    """One generated problem.

    Attributes:
        prompt: The problem in its short form, such as `3x + 4 = 19`.
        sentence: The same problem as an English sentence, with instructions where it needs them, in style "v1".
        answer: The right answer.
        identity: JSON-able value; problems with equal values count as the same problem and are in one split only.
        unit: Unit that the problem asks for; "" for none.
        statement: The problem in full style, where the guide has the instructions; "" for `sentence`.
    """

    prompt: str
    sentence: str
    answer: str
    identity: Any
    unit: str = ""
    statement: str = ""

    def text(self, style: Style) -> str:
        """Return the problem in a style."""
        return {"short": self.prompt, "v1": self.sentence, "full": self.statement or self.sentence}[style]


class GeneratedProblems(SingleAnswer):
    """Generated problems of several levels, each answered by one reply.

    A subclass sets `levels` and defines `problem` and `guide`; it may override `random`, `wrong_answer` and `reply`.

    Args:
        level: Difficulty, one of `levels`. Raises ValueError for another one.
        **limits: Arguments of `Env`: `style`, `max_turns`, `max_seconds`, `render_mode`. The problems are the same in
            every style.
    """

    levels: ClassVar[Sequence[int]] = ()

    def __init__(self, *, level: int = 1, **limits: Any) -> None:
        super().__init__(**limits)
        if level not in self.levels:
            raise ValueError(f"level {level!r} is not one of {', '.join(map(str, self.levels))}")
        self.level = int(level)

    @abstractmethod
    def problem(self, rng: np.random.Generator) -> Problem | None:
        """Draw a problem of `self.level` from `rng`; return None to reject the draw and have it repeated."""

    def tasks(self, split: str) -> Sequence[Task]:
        """Return random problems of the level; they do not depend on the style."""
        key = f"{type(self).__name__}:{self.level}"
        return drawn(split, LENGTHS[split], self._task, key=key, same=lambda task: task.metadata["same"])

    def oracle(self) -> Iterator[Message]:
        """Yield the answer alone, without a sentence around it."""
        yield assistant(self.task.answer)

    def random(self, rng: np.random.Generator) -> Message:
        """Return a whole number from -99 to 99."""
        return assistant(str(rng.integers(-99, 100)))

    def wrong_answer(self) -> str:
        """Return a wrong answer in the form of a right one. Default: the right number plus 1."""
        return format_number((parse_number(self.task.answer) or Fraction(0)) + 1)

    def attacks(self) -> Sequence[str]:
        """Return replies that must earn 0.

        Among them are the right answer beside a wrong one, negated, or as an unevaluated expression.
        """
        right, wrong = self.task.answer, self.wrong_answer()
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
        metadata = {"level": self.level, "same": problem.identity} | ({"unit": problem.unit} if problem.unit else {})
        return Task("", (user(problem.text(self.style)),), problem.answer, metadata)


def format_number(value: Fraction | int) -> str:
    """Format a number as a whole number or a fraction in lowest terms: `-3`, `5/6`."""
    return str(value)


def one_of(rng: np.random.Generator, *choices: Any) -> Any:
    """Draw one of `choices`, each equally likely."""
    return choices[int(rng.integers(len(choices)))]


def between(rng: np.random.Generator, least: int, most: int) -> int:
    """Draw a whole number from `least` to `most`, both included."""
    return int(rng.integers(least, most + 1))
