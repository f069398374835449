"""What score parts may ask of the models of a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from rl.records import Branch, Trajectory, Turn

PerTurn = list[tuple[float, ...]]  # one tuple per turn, one number per sampled token


class Scorer(Protocol):
    """The models of a run, asked for numbers. Answers are detached, in the order asked."""

    def values(self, trajectories: Sequence[Trajectory]) -> list[PerTurn]:
        """The critic's value before each sampled token."""
        ...

    def reference(self, trajectories: Sequence[Trajectory]) -> list[PerTurn]:
        """The frozen reference policy's log-probability of each sampled token."""
        ...

    def features(self, trajectories: Sequence[Trajectory]) -> list[np.ndarray]:
        """The policy's last hidden states before and after each reply: (turns, 2, E) per trajectory."""
        ...

    def continuations(self, trunks: Sequence[Sequence[int]], branches: Sequence[Branch]) -> list[list[float]]:
        """The policy's log-probabilities, at temperature 1, of what branches off some histories."""
        ...

    def reply(self, text: str) -> tuple[int, ...]:
        """The tokens of a reply that says `text`, as the policy would sample it, without the token that ends it."""
        ...

    def unsaid(self, turn: Turn, instead: str) -> tuple[int, ...] | None:
        """`turn.context` with other words in place of the environment's, equally long; None if it was rewritten."""
        ...
