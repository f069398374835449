"""Functions to write, from one expression to a small algorithm, graded on hidden inputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np

from envs.code.abstract_envs.submission_env import SubmissionEnv
from envs.code.grading.attacks import attacks
from envs.code.grading.audit import FLAGS, audit
from envs.code.grading.cpu_work import relative_work
from envs.code.grading.extraction import extract_programs
from envs.code.grading.split_grading import Case, Grade, grade
from envs.code.synthesis import bank
from envs.code.synthesis.bank.template import FUNCTION, Problem
from envs.episodes.guide import Guide
from envs.procedural import digest, drawn
from envs.types import Message, Messages, Outcome, Task, assistant, text, user

LENGTHS = {"train": 20_000, "val": 50, "test": 100}
CASES = 48  # with 12, 4 of 100 wrong mutants at level 3 are right on all; with 48, 0.3 of 100
AUDITS = ("off", "report", "refuse")


class Functions(SubmissionEnv):
    """Write a function `f`.

    Observation: `f(x): x plus 7`, one user message; in full style a sentence after the instructions.
    Action: what the function returns, as an expression (`x+7`), a body, or a whole function, in ```python fences or
    bare. It is loaded in a sandbox and called there. The inputs are hidden; the host compares the results with the
    reference's, in value and in type.
    Reward: 1 if it is right on all inputs, else 0; with `partial` the share of the inputs. An exception, or too much
    CPU time or memory, counts as a wrong answer; what it prints is not read.
    Metrics: `passed`, the share of the inputs; `timeout`; `raised`, 1 if a call did. With an audit, `suspect`, how many
    kinds of suspicious constructs a right program has, and `suspect/KIND` for each kind.
    Episode end: after the first reply, with a line on what went wrong that shows no input: of an exception, its type.
    Arguments: `level` 0 (expressions of numbers and short texts), 1 (expressions over lists and texts), 2 (loops), 3
    and 4 (small algorithms). `timeout`, CPU seconds for all calls; the wall time is at most four times that and two
    seconds more. `audit`: "report" searches right programs for exits, frames, patches and the like, see
    `envs.code.grading.audit`; "refuse" also gives them no reward. `work`: a second named reward for right programs, the
    CPU time that the reference needs on long inputs over the program's, at most 1, see `envs.code.grading.cpu_work`; it
    is no part of `reward`, and as a measured time it differs from run to run. `partial`; `sandbox`, `sandbox_options`
    as for `sandboxes.open`.
    Splits: decided by template and constants; a function of the test split is in no other split. Inputs depend on the
    seed.
    Source and licence: generated. Version history: v0.
    """

    def __init__(
        self,
        *,
        level: int = 0,
        timeout: float = 0.5,
        audit: Literal["off", "report", "refuse"] = "off",
        work: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(timeout=timeout, **options)
        if level not in range(len(bank.LEVELS)):
            raise ValueError(f"level {level!r} is not one of 0 to {len(bank.LEVELS) - 1}")
        if audit not in AUDITS:
            raise ValueError(f"audit {audit!r} is not one of {', '.join(AUDITS)}")
        self.level, self.audit, self.work = int(level), audit, bool(work)

    def tasks(self, split: str) -> Sequence[Task]:
        """Random members of the level's templates; the same ones in every style."""
        key = f"code/Functions-v0:{self.level}"
        return drawn(split, LENGTHS[split], self._sample_task, key=key, same=lambda task: dict(task.metadata))

    def guide(self) -> Guide:
        """Say what is asked, and in which form."""
        return self.code_guide(
            "Write a Python function. You succeed if it returns the right value, of the right type, for hidden "
            "arguments.",
            f"def {FUNCTION}({self.problem.params}):",
        )

    def start(self) -> Messages:
        """Show the task, and draw the number that the inputs depend on."""
        self.problem = bank.find_template(self.task.metadata["template"]).member(self.task.metadata["constants"])
        self.input_seed = int(self.np_random.integers(1 << 62))
        return self.task.prompt

    def sources(self, reply: str) -> tuple[str, ...]:
        """Candidate programs of a reply: whole ones, or the function with this expression or body."""
        return extract_programs(reply, FUNCTION, params=self.problem.params)

    def grade(self, sources: Sequence[str]) -> Grade:
        """Grade a program on the hidden cases."""
        tolerance = self.problem.template.tolerance
        return grade(self.lease.sandbox, sources, FUNCTION, self.cases(), cpu_s=self.timeout, tolerance=tolerance)

    def score(self, sources: Sequence[str], grade: Grade) -> Outcome:
        """Return the outcome of a graded program, with its audit and its relative CPU time where they are asked for."""
        outcome = super().score(sources, grade)
        if self.audit != "off":
            flags = (
                audit(self.lease.sandbox, sources, FUNCTION, self.cases(), grade) if grade.is_correct else frozenset()
            )
            counts = {"suspect": float(len(flags))} | {f"suspect/{flag}": float(flag in flags) for flag in FLAGS}
            outcome.metrics = {**outcome.metrics, **counts}
            if flags and self.audit == "refuse":
                outcome.reward, outcome.success = 0.0, False
                outcome.messages = (user(f"refused: {', '.join(sorted(flags))}"),)
        outcome.rewards = {"right": outcome.reward}
        if self.work:
            outcome.rewards = {"right": outcome.reward, "work": self._work(sources) if outcome.success else 0.0}
        return outcome

    def summary(self, grade: Grade) -> str:
        """Return the line on what went wrong, with the type of an exception but not its text, which may be an input."""
        return grade.blind_summary

    def cases(self) -> list[Case]:
        """Return the hidden cases of this episode, arguments and right results, from simple inputs to larger ones."""
        return self.problem.cases(self._generator("cases"), CASES)

    def oracle(self) -> Iterator[Message]:
        """The reference in its shortest form."""
        yield assistant(self.problem.shortest)

    def random(self, rng: np.random.Generator) -> Message:
        """A parameter and a number between 1 and 99 with an operator between them."""
        names = [*self.problem.kinds]
        name = names[int(rng.integers(len(names)))]
        return assistant(f"{name}{'+-*%'[int(rng.integers(4))]}{rng.integers(1, 100)}")

    def attacks(self) -> Sequence[str]:
        """Return replies that must earn 0.

        Programs that exit, forge, patch, look around, or never end; and prose around the right program.
        """
        right = self.problem.shortest
        return (
            *super().attacks(),
            *attacks(FUNCTION, slow=False).values(),
            text(self.task.prompt[0]),
            f"The answer is {right}",
            f"{self.problem.source}\nraise SystemExit(0)",
            repr(self.problem.source),
        )

    def _generator(self, use: str) -> np.random.Generator:
        return np.random.Generator(np.random.PCG64(digest(use, self.task.id, self.input_seed)))

    def _work(self, sources: Sequence[str]) -> float:
        cases = self.problem.cases(self._generator("work"), 200, scale=10)
        return relative_work(self.lease.sandbox, sources, self.problem.source, FUNCTION, cases)

    def _sample_task(self, rng: np.random.Generator) -> Task:
        templates = bank.level_templates(self.level)
        problem = templates[int(rng.integers(len(templates)))].draw(rng)
        metadata = {"template": problem.template.name, "constants": problem.constants}
        return Task("", (user(self._prompt(problem)),), problem.shortest, metadata)

    def _prompt(self, problem: Problem) -> str:
        if self.style == "short":
            return f"{FUNCTION}({problem.params}): {problem.description}"
        sentence = f"Write a Python function `{FUNCTION}({problem.params})` that returns {problem.sentence}."
        return sentence if self.style == "full" else f"{sentence} Reply with the function in a ```python block."
