"""What a run asks of a learner, be it in this process (`rl.learner.learner`) or of several (`rl.train.trainers`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import torch

from rl.methods.inputs import Row
from rl.methods.recipe import Recipe
from rl.records import Trajectory

PerToken = list[list[tuple[float, ...]]]  # [trajectory][turn][token]


class AnyLearner(Protocol):
    """A model and what changes it. See `rl.learner.learner.Learner` for all of it."""

    model: Any
    device: torch.device
    lr: float
    temperature: float
    microbatch_tokens: int
    recompute: bool
    weights_changed: bool
    has_adapters: bool

    def update(self, rows: Sequence[Row], recipe: Recipe, *, scale: float = 1.0, seed: int = 0) -> dict[str, float]:
        """Make the optimiser steps of one update and return its metrics."""

    def freeze_reference(self) -> None:
        """Keep the current weights as the reference model."""

    def values(self, trajectories: Sequence[Trajectory]) -> PerToken:
        """Return the critic's value before each sampled token."""

    def reference(self, trajectories: Sequence[Trajectory]) -> PerToken:
        """Return the reference model's log-probability of each sampled token."""

    def logprobs(self, trajectories: Sequence[Trajectory]) -> PerToken:
        """Return the current model's log-probability of each sampled token."""

    def hidden_states(self, rows: Sequence[Row]) -> np.ndarray:
        """Return the hidden states (M, E) that predict the sampled tokens."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state of all but the model's weights."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from what `state_dict` returned."""

    def close(self) -> None:
        """End what it has started."""
