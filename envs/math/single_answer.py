"""Base class of environments whose episodes consist of one graded reply."""

from __future__ import annotations

from collections.abc import Hashable

from envs.env import Env
from envs.episodes.guide import Guide
from envs.grading.declaration import collections_in, find_declaration
from envs.grading.exact import collection_key
from envs.grading.math import verify
from envs.math.vote import vote
from envs.types import Message, Outcome, final_text


class SingleAnswer(Env):
    """Problems that one reply answers: reward 1 if `envs.grading.math.verify` accepts the answer, else 0.

    A subclass defines `tasks`, whose tasks have the right answer as `answer`, and `oracle`. It may set `symbolic`.
    """

    symbolic: bool = False  # whether answers that cannot be compared exactly are passed to math-verify

    def answer_guide(self, goal: str, reply: str, example: str, *, rules: str = "", thinking: str = "") -> Guide:
        """Return the guide of a problem that one reply answers; the arguments are those of `Guide`."""
        invalid = "A reply that states no answer, or several, counts as wrong."
        return Guide(goal, reply, example, rules=rules, thinking=thinking, invalid=invalid, heading="The problem:")

    def reply(self, action: Message) -> Outcome:
        """Grade the reply and end the episode. A reply that declares no answer, or several, is invalid and earns 0."""
        verdict = verify(self.answer_in(final_text(action)), self.task.answer, symbolic=self.symbolic)
        right, valid = verdict.correct, verdict.method not in ("none", "unclear")
        return Outcome(reward=float(right), terminated=True, success=right, valid=valid)

    def answer_in(self, reply: str) -> str:
        """Return the part of a reply that is graded. Default: all of it."""
        return reply

    def vote(self, action: Message) -> Hashable | None:
        """Return the answer that the reply declares; None if it declares none. The order of a set does not matter."""
        reply = self.answer_in(final_text(action))
        kind, answer = find_declaration(reply)
        candidates = [answer] if kind in ("marked", "phrase") else collections_in(reply)
        return next(filter(None, map(collection_key, candidates)), None) or vote(reply)
