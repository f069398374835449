"""The abstract environment whose programs must pass the unit tests of a data set."""

from __future__ import annotations

import ast
import warnings
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from envs import data
from envs.code.abstract_envs.submission_env import SubmissionEnv
from envs.code.grading.attacks import attacks
from envs.code.grading.extraction import extract_programs
from envs.code.grading.split_grading import Grade
from envs.code.grading.unit_tests import UnitTestSuite, grade_by_tests
from envs.episodes.guide import Guide
from envs.procedural import digest
from envs.types import Message, Messages, assistant, text


class UnitTestEnv(SubmissionEnv):
    """Ask for a function that must pass unit tests, which run in another sandbox: `envs.code.grading.unit_tests`.

    Random inputs that the tests draw depend on the episode's seed, which the program does not get.
    """

    suite: UnitTestSuite
    test_seed: int  # of the random numbers that the tests draw
    prompt_code: str = ""  # code that precedes every program, and that a reply may continue

    def __init__(self, *, data_root: str | None = None, timeout: float = 3.0, **options: Any) -> None:
        super().__init__(timeout=timeout, **options)
        self.data_root = data_root

    @abstractmethod
    def load_suite(self) -> UnitTestSuite:
        """Return the tests of `self.task`; may also set `self.prompt_code`, which precedes every program."""

    def guide(self) -> Guide:
        """Say what is asked, and in which form."""
        return self.code_guide(
            "Write a Python function. You succeed if it passes hidden tests. Only the standard library can be "
            "imported.",
            f"def {self.suite.function}(*arguments):",
        )

    def start(self) -> Messages:
        """Load the tests, draw the seed of their random inputs, and show the prompt."""
        self.suite = self.load_suite()
        self.test_seed = digest("random inputs of tests", self.task.id, int(self.np_random.integers(1 << 62)))
        return self.task.prompt

    def sources(self, reply: str) -> tuple[str, ...]:
        """Return the programs in a reply that define the function, or that continue the prompt, the likeliest first."""
        return extract_programs(reply, self.suite.function, prompt=self.prompt_code)

    def grade(self, sources: Sequence[str]) -> Grade:
        """Grade a program by the tests it passes."""
        return grade_by_tests(self.lease.sandbox, sources, self.suite, cpu_s=self.timeout, seed=self.test_seed)

    def oracle(self) -> Iterator[Message]:
        """The data set's solution."""
        yield assistant(self.task.answer)

    def random(self, rng: np.random.Generator) -> Message:
        """A function that returns a number below 10."""
        return assistant(f"def {self.suite.function}(*given):\n    return {rng.integers(10)}")

    def attacks(self) -> Sequence[str]:
        """Return replies that must earn 0.

        Programs that exit, forge, patch and look around; the prompt itself, and the solution quoted in prose.
        """
        return (
            *super().attacks(),
            *attacks(self.suite.function, slow=False).values(),
            text(self.task.prompt[0]),
            f"The solution is:\n{self.task.answer!r}",
        )


def fence(code: str) -> str:
    """Put code into a Markdown block marked as Python, three backticks before and after it."""
    return f"```python\n{code.strip()}\n```"


def parse_field(row: data.Row, field: str, code: str) -> ast.Module:
    """Parse the Python of a row's field.

    Args:
        row: The row, which errors name.
        field: What the code is, such as "field 'test'".
        code: The source text.

    Raises:
        ValueError: It is no Python; the message has the row's file, the field and the line of the code.
    """
    try:
        with warnings.catch_warnings(action="ignore"):  # of escapes such as "\\d", which data sets are full of
            return ast.parse(code)
    except (SyntaxError, ValueError) as error:
        line = f", line {error.lineno}" if isinstance(error, SyntaxError) else ""
        reason = error.msg if isinstance(error, SyntaxError) else str(error)
        raise ValueError(f"{row.source}: {field} is no Python{line}: {reason}") from None
