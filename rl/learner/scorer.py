"""The trained model as the score parts of a recipe use it: a learner for numbers, a renderer for prompts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from agents.render import Renderer
from envs.types import Message, Messages, assistant
from rl.learner import hidden_states, measures
from rl.learner.interface import AnyLearner
from rl.learner.teachers import Teacher, open_teacher, teacher_logprobs
from rl.methods.options import PartError
from rl.methods.parts.score import PerTurn
from rl.policy.branches import branch_logprobs
from rl.records import Branch, Trajectory, Turn


class ModelScorer:
    """The `rl.methods.parts.score.Scorer` that score parts call, over the current weights of `learner`."""

    version = 0

    def __init__(self, learner: AnyLearner, renderer: Renderer) -> None:
        self.learner, self.renderer = learner, renderer
        self._teachers: dict[str, Teacher] = {}

    def values(self, trajectories: Sequence[Trajectory]) -> list[PerTurn]:
        """Return the critic's value before each sampled token, as `[trajectory][turn][token]`."""
        return self.learner.values(trajectories)

    def reference(self, trajectories: Sequence[Trajectory]) -> list[PerTurn]:
        """Return the reference policy's log-probability of each sampled token, as `[trajectory][turn][token]`."""
        return self.learner.reference(trajectories)

    def renew_reference(self) -> None:
        """Make the current weights the reference policy. Raises `PartError` where it is the model below adapters."""
        if self.learner.has_adapters:
            raise PartError("score renewed_reference: with --lora the reference is the model below the adapters")
        self.learner.freeze_reference()

    def logprobs(self, trajectories: Sequence[Trajectory]) -> list[PerTurn]:
        """Return the current weights' log-probability of each sampled token, as `[trajectory][turn][token]`."""
        return self.learner.logprobs(trajectories)

    def teacher(self, trajectories: Sequence[Trajectory], model: str) -> list[PerTurn]:
        """Return another model's log-probabilities of the sampled tokens, as `[trajectory][turn][token]`."""
        if model not in self._teachers:
            self._teachers[model] = open_teacher(model, self.learner, self.renderer.tokenizer.get_vocab())
        return teacher_logprobs(self._teachers[model], trajectories, self.learner.temperature)

    def squares(self, trajectories: Sequence[Trajectory]) -> list[PerTurn]:
        """Return the sum of squared probabilities at each sampled token, as `[trajectory][turn][token]`."""
        return measures.squares(self.learner, trajectories)

    def gradient_norms(self, trajectories: Sequence[Trajectory]) -> list[float]:
        """Return the norm of the gradient of each trajectory's mean log-probability, over all trained weights."""
        return measures.gradient_norms(self.learner, trajectories)

    def features(self, trajectories: Sequence[Trajectory]) -> list[np.ndarray]:
        """Return the last hidden states before and after each reply: (K, 2, E) for each trajectory of K turns."""
        return hidden_states.around_replies(self.learner.hidden_states, trajectories)

    def continuations(self, trunks: Sequence[Sequence[int]], branches: Sequence[Branch]) -> list[list[float]]:
        """Return the log-probabilities, at temperature 1, of the scored tokens of each branch (`branch_logprobs`)."""
        return branch_logprobs(self.learner.model, trunks, branches, max_tokens=self.learner.microbatch_tokens)

    def encode_reply(self, text: str) -> tuple[int, ...]:
        """Return the token ids of a reply that reads `text`, without the token that ends it."""
        ids = self.renderer.write(assistant(text))
        return ids[:-1] if ids and ids[-1] in self.renderer.stop else ids

    def hide_feedback(self, turn: Turn, placeholder: str) -> tuple[int, ...] | None:
        """Return `turn.context` with `placeholder` instead of the environment's text, in as many tokens.

        The tokens that the chat template adds around the text are kept. None where the template has rewritten the
        context.
        """
        other: Messages = tuple(_with_content(message, placeholder) for message in turn.observation)
        for closed in (True, False):
            for thinking in (False, True):
                context = self.renderer.extend(turn.observation, closed=closed, thinking=thinking)
                replacement = self.renderer.extend(other, closed=closed, thinking=thinking)
                if context == turn.context and replacement is not None:
                    return _replace_span(context, replacement)
        return None


def _with_content(message: Message, content: str) -> Message:
    copy: Message = {**message, "content": content}
    return copy


def _replace_span(ids: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    """Overwrite the span of `ids` that differs from `other` with the span of `other`, repeated or cut to its length."""
    shortest = min(len(other), len(ids))
    start = next((i for i in range(shortest) if other[i] != ids[i]), shortest)
    end = next((i for i in range(shortest - start) if other[-1 - i] != ids[-1 - i]), shortest - start)
    length, span = len(ids) - start - end, other[start : len(other) - end]
    if not span:
        span = other[max(start - 1, 0) : start]
    return (*ids[:start], *(span * length)[:length], *ids[len(ids) - end :])
