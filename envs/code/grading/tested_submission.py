"""What the environments share whose programs have to pass the test code of a data set."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from envs.code.grading.attacks import attacks
from envs.code.grading.extraction import programs
from envs.code.grading.single_submission import Submitted
from envs.code.grading.split_grading import Grade
from envs.code.grading.test_code import Exam, examine
from envs.types import Message, Messages, assistant, text


class Tested(Submitted):
    """A function that has to pass tests, which run apart from it, see `envs.code.grading.test_code`."""

    exam: Exam
    before: str = ""  # code that a program is run after, and that a reply may go on with

    def __init__(self, *, data_root: str | None = None, timeout: float = 3.0, **more: Any) -> None:
        super().__init__(timeout=timeout, **more)
        self.data_root = data_root

    @abstractmethod
    def examination(self) -> Exam:
        """The exam of this episode's task."""

    def start(self) -> Messages:
        """Prepare the exam."""
        self.exam = self.examination()
        return self.task.prompt

    def sources(self, reply: str) -> tuple[str, ...]:
        """A program that defines the function, or what goes on after the prompt."""
        return programs(reply, self.exam.function, prompt=self.before)

    def graded(self, sources: Sequence[str]) -> Grade:
        """The tests that a program passes."""
        return examine(self.lease.sandbox, sources, self.exam, cpu_s=self.timeout)

    def oracle(self) -> Iterator[Message]:
        """The data set's solution."""
        yield assistant(self.task.answer)

    def random(self, rng: np.random.Generator) -> Message:
        """A function that returns a number below 10."""
        return assistant(f"def {self.exam.function}(*given):\n    return {rng.integers(10)}")

    def attacks(self) -> Sequence[str]:
        """Programs that exit, forge, patch and look around; the prompt itself, and the solution in prose."""
        return (
            *super().attacks(),
            *attacks(self.exam.function, slow=False).values(),
            text(self.task.prompt[0]),
            f"The solution is:\n{self.task.answer!r}",
        )


def fenced(code: str) -> str:
    """A block of Python in Markdown."""
    return f"```python\n{code.strip()}\n```"
