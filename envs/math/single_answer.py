"""What all environments with one graded reply share: the verdict, and what a reply votes for."""

from __future__ import annotations

from collections.abc import Hashable

from envs.env import Env
from envs.grading.declared import declaration, whole
from envs.grading.exact import key
from envs.grading.math import verify
from envs.grading.vote import vote
from envs.types import Message, Outcome, spoken


class Answered(Env):
    """A problem that one reply answers: 1 for an answer equal to the task's by `envs.grading.math.verify`, else 0."""

    symbolic: bool = False  # whether math-verify may be asked

    def reply(self, action: Message) -> Outcome:
        """Grade the reply; it is invalid where it declares no one answer."""
        verdict = verify(spoken(action), self.task.answer, symbolic=self.symbolic)
        right, valid = verdict.correct, verdict.method not in ("none", "unclear")
        return Outcome(reward=float(right), terminated=True, success=right, valid=valid)

    def vote(self, action: Message) -> Hashable | None:
        """The declared answer; sets in another order vote for the same."""
        said = spoken(action)
        kind, answer = declaration(said)
        found = key(answer if kind in ("marked", "phrase") else whole(said))
        return vote(said) if found is None else found
