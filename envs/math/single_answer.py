"""What all environments with one graded reply share: the verdict, and what a reply votes for."""

from __future__ import annotations

from collections.abc import Hashable

from envs.env import Env
from envs.grading.declaration import find_declaration, single_line
from envs.grading.exact import collection_key
from envs.grading.math import verify
from envs.grading.vote import vote
from envs.types import Message, Outcome, final_text


class Answered(Env):
    """A problem that one reply answers: 1 for an answer equal to the task's by `envs.grading.math.verify`, else 0."""

    symbolic: bool = False  # whether math-verify may be asked

    def reply(self, action: Message) -> Outcome:
        """Grade the reply; it is invalid where it declares no one answer."""
        verdict = verify(final_text(action), self.task.answer, symbolic=self.symbolic)
        right, valid = verdict.correct, verdict.method not in ("none", "unclear")
        return Outcome(reward=float(right), terminated=True, success=right, valid=valid)

    def vote(self, action: Message) -> Hashable | None:
        """The declared answer; sets in another order vote for the same."""
        said = final_text(action)
        kind, answer = find_declaration(said)
        found = collection_key(answer if kind in ("marked", "phrase") else single_line(said))
        return vote(said) if found is None else found
