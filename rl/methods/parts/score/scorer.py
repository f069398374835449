"""What score parts may request from the models of a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from rl.records import Branch, Trajectory, Turn

PerTurn = list[tuple[float, ...]]  # one tuple per turn, one number per sampled token


class Scorer(Protocol):
    """The models of a run. Results carry no gradient and stand in the order of the arguments.

    `version` is the number of updates behind the weights that the coming update trains.
    """

    version: int

    def values(self, trajectories: Sequence[Trajectory]) -> list[PerTurn]:
        """Return the critic's value before each sampled token, as `[trajectory][turn][token]`."""
        ...

    def reference(self, trajectories: Sequence[Trajectory]) -> list[PerTurn]:
        """Return the frozen reference policy's log-probabilities of the sampled tokens: `[trajectory][turn][token]`."""
        ...

    def renew_reference(self) -> None:
        """Make the trained policy, as it is now, the reference policy."""
        ...

    def logprobs(self, trajectories: Sequence[Trajectory]) -> list[PerTurn]:
        """The trained policy's own log-probabilities of the sampled tokens, before the update."""
        ...

    def teacher(self, trajectories: Sequence[Trajectory], model: str) -> list[PerTurn]:
        """Another model's log-probabilities of the sampled tokens (`rl.methods.parts.score.teacher`)."""
        ...

    def squares(self, trajectories: Sequence[Trajectory]) -> list[PerTurn]:
        """The sum of squared probabilities of the vocabulary at each sampled token: `[trajectory][turn][token]`."""
        ...

    def gradient_norms(self, trajectories: Sequence[Trajectory]) -> list[float]:
        """The norm of the gradient of each trajectory's mean log-probability, over all trained weights."""
        ...

    def features(self, trajectories: Sequence[Trajectory]) -> list[np.ndarray]:
        """The policy's last hidden states before and after each reply: (K, 2, E) for each trajectory of K turns."""
        ...

    def continuations(self, trunks: Sequence[Sequence[int]], branches: Sequence[Branch]) -> list[list[float]]:
        """The policy's log-probabilities, at temperature 1, of the scored tokens of each branch.

        `trunks` are token histories. A branch is a continuation of one: it names the trunk, the position where it
        leaves it, its token ids, and how many of these, the last ones, are scored.
        """
        ...

    def encode_reply(self, text: str) -> tuple[int, ...]:
        """The token ids of a reply that reads `text`, as the policy would sample it, without the token that ends it."""
        ...

    def hide_feedback(self, turn: Turn, placeholder: str) -> tuple[int, ...] | None:
        """The token ids of `turn.context` with the text `placeholder` in place of the environment's, in as many tokens.

        None where the chat template has rewritten the context.
        """
        ...
