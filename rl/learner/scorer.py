"""The models of a run as score parts see them: a learner for numbers, a renderer for words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from agents.render import Renderer
from envs.types import Message, Messages, assistant
from rl.learner import hidden_states
from rl.learner.learner import Learner
from rl.methods.parts.score import PerTurn
from rl.policy import branches
from rl.records import Branch, Trajectory, Turn


class ModelScorer:
    """A `rl.methods.parts.score.Scorer` over the learner's present weights."""

    def __init__(self, learner: Learner, renderer: Renderer) -> None:
        self.learner, self.renderer = learner, renderer

    def values(self, trajectories: Sequence[Trajectory]) -> list[PerTurn]:
        """See `rl.methods.parts.score.Scorer`."""
        return self.learner.values(trajectories)

    def reference(self, trajectories: Sequence[Trajectory]) -> list[PerTurn]:
        """See `rl.methods.parts.score.Scorer`."""
        return self.learner.reference(trajectories)

    def features(self, trajectories: Sequence[Trajectory]) -> list[np.ndarray]:
        """See `rl.methods.parts.score.Scorer`."""
        return hidden_states.around_replies(self.learner.hidden, trajectories)

    def continuations(self, trunks: Sequence[Sequence[int]], asked: Sequence[Branch]) -> list[list[float]]:
        """See `rl.methods.parts.score.Scorer`."""
        return branches.logprobs(self.learner.model, trunks, asked, budget=self.learner.microbatch_tokens)

    def reply(self, text: str) -> tuple[int, ...]:
        """See `rl.methods.parts.score.Scorer`."""
        ids = self.renderer.write(assistant(text))
        return ids[:-1] if ids and ids[-1] in self.renderer.stop else ids

    def unsaid(self, turn: Turn, instead: str) -> tuple[int, ...] | None:
        """See `rl.methods.parts.score.Scorer`: what the template writes around the words stays as it is."""
        other: Messages = tuple(_saying(instead, message) for message in turn.observation)
        for closed in (True, False):
            for thinking in (False, True):
                told = self.renderer.extend(turn.observation, closed=closed, thinking=thinking)
                hidden = self.renderer.extend(other, closed=closed, thinking=thinking)
                if told == turn.context and hidden is not None:
                    return _of_length(hidden, told)
        return None


def _saying(text: str, message: Message) -> Message:
    changed: Message = {**message, "content": text}
    return changed


def _of_length(hidden: tuple[int, ...], told: tuple[int, ...]) -> tuple[int, ...]:
    """`told` with the stretch in which it differs from `hidden` overwritten by the latter's, repeated or cut."""
    shortest = min(len(hidden), len(told))
    start = next((i for i in range(shortest) if hidden[i] != told[i]), shortest)
    end = next((i for i in range(shortest - start) if hidden[-1 - i] != told[-1 - i]), shortest - start)
    room, words = len(told) - start - end, hidden[start : len(hidden) - end]
    if not words:
        words = hidden[max(start - 1, 0) : start]
    return (*told[:start], *(words * room)[:room], *told[len(told) - end :])
