"""Functions to write, from one expression to a small algorithm, graded on hidden inputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np

from envs.code.grading.attacks import attacks
from envs.code.grading.audit import FLAGS, audit
from envs.code.grading.cpu_work import relative_work
from envs.code.grading.extraction import programs
from envs.code.grading.single_submission import Submitted
from envs.code.grading.split_grading import Case, Grade, grade
from envs.code.synthesis import bank
from envs.code.synthesis.bank.template import FUNCTION, Problem
from envs.procedural import digest, drawn
from envs.types import Message, Messages, Outcome, Task, assistant, text, user

LENGTHS = {"train": 20_000, "val": 50, "test": 100}
CASES = 12
AUDITS = ("off", "report", "refuse")


class Functions(Submitted):
    """Write a function `f`.

    Observation: `f(x): x plus 7`, one user message; with `words` the same in a sentence.
    Action: what the function returns, as an expression (`x+7`), a body, or a whole function, in ```python fences or
    bare. It is loaded in a sandbox and called there; the inputs are hidden, and the results are compared here, in
    value and in type, with the reference's.
    Reward: 1 if it is right on all inputs, else 0; with `partial` the share of the inputs. An exception, or too much
    CPU time, memory or output, is the function's own fault.
    Metrics: `passed`, the share of the inputs; `timeout`; `raised`, 1 if a call did. With an audit, `suspect`, how many
    kinds of suspicious constructs a right program has, and `suspect/KIND` for each kind.
    Episode end: after the first reply, with a word on what went wrong and no input.
    Arguments: `level` 0 (expressions of numbers and short texts), 1 (expressions over lists and texts), 2 (loops), 3
    and 4 (small algorithms). `timeout`, CPU seconds for all calls; the wall is bounded by four times as many and two
    more. `audit`: "report" looks at right programs for exits, frames, patches and the like, see `envs.code.grading.audit`;
    "refuse" also pays nothing for them. `work`: a second named reward for right programs, the CPU time that the
    reference needs on long inputs over the program's, at most 1, see `envs.code.grading.cpu_work`; it is no part of `reward`, and
    as a measured time it is not the same each time. `partial`; `sandbox`, `sandbox_options` as for `sandboxes.open`.
    Splits: the constants decide; a test problem's function is asked for in no other split. Inputs depend on the seed.
    Source and licence: generated. Version history: v0.
    """

    def __init__(
        self,
        *,
        level: int = 0,
        words: bool = False,
        timeout: float = 0.5,
        audit: Literal["off", "report", "refuse"] = "off",
        work: bool = False,
        **more: Any,
    ) -> None:
        super().__init__(timeout=timeout, **more)
        if level not in range(len(bank.LEVELS)):
            raise ValueError(f"level {level!r} is not one of 0 to {len(bank.LEVELS) - 1}")
        if audit not in AUDITS:
            raise ValueError(f"audit {audit!r} is not one of {', '.join(AUDITS)}")
        self.level, self.words, self.audit, self.work = int(level), bool(words), audit, bool(work)

    def tasks(self, split: str) -> Sequence[Task]:
        """Members of the level's templates, drawn; equal for any `words`."""
        key = f"code/Functions-v0:{self.level}"
        return drawn(split, LENGTHS[split], self._task, key=key, same=lambda task: dict(task.metadata))

    def start(self) -> Messages:
        """Draw what the inputs depend on."""
        self.problem = bank.named(self.task.metadata["template"]).member(self.task.metadata["constants"])
        self.luck = int(self.np_random.integers(1 << 62))
        return self.task.prompt

    def sources(self, reply: str) -> tuple[str, ...]:
        """A program, or the expression or body that the function is to have."""
        return programs(reply, FUNCTION, params=self.problem.params)

    def graded(self, sources: Sequence[str]) -> Grade:
        """The hidden cases that a program gets right."""
        tolerance = self.problem.template.tolerance
        return grade(self.lease.sandbox, sources, FUNCTION, self.cases(), cpu_s=self.timeout, tolerance=tolerance)

    def paid(self, sources: Sequence[str], found: Grade) -> Outcome:
        """The verdict, after an audit, and the work."""
        outcome = super().paid(sources, found)
        if self.audit != "off":
            flags = audit(self.lease.sandbox, sources, FUNCTION, self.cases(), found) if found.right else frozenset()
            seen = {"suspect": float(len(flags))} | {f"suspect/{flag}": float(flag in flags) for flag in FLAGS}
            outcome.metrics = {**outcome.metrics, **seen}
            if flags and self.audit == "refuse":
                outcome.reward, outcome.success = 0.0, False
                outcome.messages = (user(f"refused: {', '.join(sorted(flags))}"),)
        outcome.rewards = {"right": outcome.reward}
        if self.work:
            outcome.rewards = {"right": outcome.reward, "work": self._work(sources) if outcome.success else 0.0}
        return outcome

    def cases(self) -> list[Case]:
        """The hidden cases of this episode."""
        return self.problem.cases(self._generator("cases"), CASES)

    def oracle(self) -> Iterator[Message]:
        """The reference, as short as it can be said."""
        yield assistant(self.problem.short)

    def random(self, rng: np.random.Generator) -> Message:
        """A parameter and a number between 1 and 99 with an operator between them."""
        names = [*self.problem.kinds]
        name = names[int(rng.integers(len(names)))]
        return assistant(f"{name}{'+-*%'[int(rng.integers(4))]}{rng.integers(1, 100)}")

    def attacks(self) -> Sequence[str]:
        """Programs that exit, forge, patch, look around, or go on for ever; and prose around the right program."""
        right = self.problem.short
        return (
            *super().attacks(),
            *attacks(FUNCTION, slow=False).values(),
            text(self.task.prompt[0]),
            f"The answer is {right}",
            f"{self.problem.source}\nraise SystemExit(0)",
            repr(self.problem.source),
        )

    def _generator(self, use: str) -> np.random.Generator:
        return np.random.Generator(np.random.PCG64(digest(use, self.task.id, self.luck)))

    def _work(self, sources: Sequence[str]) -> float:
        many = self.problem.cases(self._generator("work"), 200, scale=10)
        return relative_work(self.lease.sandbox, sources, self.problem.source, FUNCTION, many)

    def _task(self, rng: np.random.Generator) -> Task:
        templates = bank.at_level(self.level)
        problem = templates[int(rng.integers(len(templates)))].draw(rng)
        about = {"template": problem.template.name, "constants": problem.constants}
        return Task("", (user(self._said(problem)),), problem.short, about)

    def _said(self, problem: Problem) -> str:
        if not self.words:
            return f"{FUNCTION}({problem.params}): {problem.line}"
        return (
            f"Write a Python function `{FUNCTION}({problem.params})` that returns {problem.words}. "
            "Reply with the function in a ```python block."
        )
