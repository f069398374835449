"""The abstract environment whose reply is a program that is graded once."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from envs.code.grading.extraction import extract_code
from envs.code.grading.split_grading import Grade
from envs.env import Env
from envs.episodes.guide import Guide
from envs.shared_sandbox import Lease, check_seconds
from envs.types import Message, Outcome, final_text, user

CODE_THINKING = "You may think first; the last such block of your reply counts."


class SubmissionEnv(Env):
    """Ask for a program, grade it, and end the episode with a line on what went wrong.

    Reward: 1 if all cases are right, else 0; with `partial` the share of right cases.
    Metrics: those of `envs.code.grading.split_grading.Grade`.
    Arguments: `timeout`, CPU seconds for all calls of a program; the wall time is at most four times that and two
    seconds more. `sandbox` and `sandbox_options` as for `sandboxes.open`.
    """

    blocking = True

    def __init__(
        self,
        *,
        partial: bool = False,
        timeout: float = 1.0,
        sandbox: str = "local",
        sandbox_options: Mapping[str, Any] | None = None,
        **limits: Any,
    ) -> None:
        super().__init__(**limits)
        self.partial, self.timeout = bool(partial), check_seconds("timeout", timeout)
        self.lease = Lease(sandbox, sandbox_options)

    @abstractmethod
    def sources(self, reply: str) -> tuple[str, ...]:
        """Return the programs that a reply's text may mean, the likeliest first; the first that compiles is graded.

        Empty for a reply without code.
        """

    @abstractmethod
    def grade(self, sources: Sequence[str]) -> Grade:
        """Grade the first of `sources` that compiles. Raises SandboxError where the sandbox itself fails."""

    def code_guide(self, goal: str, header: str) -> Guide:
        """Return the guide of a task that one program answers; `header` is the first line of the function."""
        return Guide(
            goal=goal,
            reply="Reply with the whole function, and the imports it needs, in a block between ```python and ```.",
            thinking=CODE_THINKING,
            example=f"```python\n{header}\n    return None\n```",
            invalid="A reply without a Python program counts as wrong.",
            heading="The task:",
        )

    def reply(self, action: Message) -> Outcome:
        """Grade the reply's program and end the episode; the reply is invalid where no candidate compiles."""
        sources = self.sources(final_text(action))
        return self.score(sources, self.grade(sources))

    def score(self, sources: Sequence[str], grade: Grade) -> Outcome:
        """Return the outcome of a reply whose program got this grade: reward, metrics, a line on what went wrong."""
        return Outcome(
            messages=(user(self.summary(grade)),),
            reward=grade.share if self.partial else float(grade.is_correct),
            terminated=True,
            success=grade.is_correct,
            valid=grade.run.is_compiled,
            metrics=grade.metrics,
        )

    def summary(self, grade: Grade) -> str:
        """Return the line on what went wrong that ends the episode."""
        return grade.summary

    def vote(self, action: Message) -> Hashable | None:
        """Return the code of the reply without white space, so that equal programs vote alike; None without code."""
        return "".join(extract_code(final_text(action)).split()) or None

    def close(self) -> None:
        """Release the share in the sandbox."""
        self.lease.close()
