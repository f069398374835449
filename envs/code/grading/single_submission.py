"""What the environments share whose reply is a program that is graded once."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from envs.code.grading.extraction import code
from envs.code.grading.split_grading import Grade
from envs.env import Env
from envs.shared_sandbox import Lease, seconds
from envs.types import Message, Outcome, spoken, user


class Submitted(Env):
    """A program is asked for, graded, and the episode ends with a word on what went wrong.

    Reward: 1 if everything passes, else 0; with `partial` the share that passes.
    Metrics: those of `envs.code.grading.split_grading.Grade`.
    Arguments: `timeout`, CPU seconds for all that a program does; the wall is bounded by four times as many and two
    more. `sandbox` and `sandbox_options` as for `sandboxes.open`.
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
        self.partial, self.timeout = bool(partial), seconds("timeout", timeout)
        self.lease = Lease(sandbox, sandbox_options)

    @abstractmethod
    def sources(self, reply: str) -> tuple[str, ...]:
        """Texts that may be the program that a reply means, the likeliest first."""

    @abstractmethod
    def graded(self, sources: Sequence[str]) -> Grade:
        """The verdict on a program for this episode's task. SandboxError is a fault of ours."""

    def reply(self, action: Message) -> Outcome:
        """Grade the program; it is invalid where nothing compiles."""
        sources = self.sources(spoken(action))
        return self.paid(sources, self.graded(sources))

    def paid(self, sources: Sequence[str], found: Grade) -> Outcome:
        """What a verdict earns."""
        return Outcome(
            messages=(user(found.word),),
            reward=found.share if self.partial else float(found.right),
            terminated=True,
            success=found.right,
            valid=found.answers.readable,
            metrics=found.metrics,
        )

    def vote(self, action: Message) -> Hashable | None:
        """The code without blanks."""
        return "".join(code(spoken(action)).split()) or None

    def close(self) -> None:
        """Give the sandbox back."""
        self.lease.close()
