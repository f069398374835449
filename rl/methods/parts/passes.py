"""How often an update goes through the rows of a phase: `(weights, epochs) -> iterator`, one pass for each `yield`.

A pass takes the optimiser steps of all minibatches. What stands between two `yield`s sees the weights that the last
pass has produced, and may move them (`Weights`); the optimiser's moments stay as they are. What the part yields is not
read. Ratios are against the policy before the first pass throughout.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from rl.methods.estimators.statistics import last_score
from rl.methods.options import Count, Positive, Share

if TYPE_CHECKING:
    from torch import Tensor


class Weights(Protocol):
    """The trained weights, value head included, between two passes."""

    def copy(self) -> list[Tensor]:
        """A copy of all trained weights, in their optimiser's precision."""
        ...

    def move(self, start: list[Tensor], share: float) -> None:
        """Set the weights to `start + share * (weights - start)`."""
        ...

    def entropy(self) -> float:
        """The policy's mean entropy per token, in nats, as it was in the pass that has ended."""
        ...


def plain(weights: Weights, epochs: int) -> Iterator[None]:
    """`epochs` passes and nothing between them."""
    for _ in range(epochs):
        yield


@dataclass
class slow_fast:
    """SFPO (Slow-Fast Policy Optimization, 2025): `fast` passes, a step back, and one pass more from there.

    After the fast passes the weights are `start + alpha * (weights - start)`: the direction of several steps is kept,
    and not their drift. An update then costs `fast + 1` passes and no further episode; all of it is repeated `epochs`
    times. It stops for good, and updates are plain, as soon as the policy's entropy in an update is `threshold`
    standard deviations above the mean of the last `window` updates, itself among them. With `alpha=0` updates are plain
    from the start.

    Attributes:
        fast: Passes before the weights are moved back.
        alpha: Share of the way that is kept.
        window: Updates whose entropies are compared; it takes two.
        threshold: Standard deviations above the mean that end it.

    """

    fast: Count = 3
    alpha: Share = 0.8
    window: Count = 30
    threshold: Positive = 1.0
    _entropies: list[float] = field(default_factory=list, init=False, compare=False)
    _has_stopped: bool = field(default=False, init=False, compare=False)

    def __call__(self, weights: Weights, epochs: int) -> Iterator[None]:
        """Yield once for each pass."""
        for epoch in range(epochs):
            if self._has_stopped or not self.alpha:
                yield
                continue
            start = weights.copy()
            for number in range(self.fast):
                yield
                if not epoch and not number:
                    self._note(weights.entropy())
            weights.move(start, self.alpha)
            yield

    def state_dict(self) -> dict[str, Any]:
        """The entropies of the last updates, and whether it has stopped."""
        return {"entropies": list(self._entropies), "has_stopped": self._has_stopped}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore `state_dict()`."""
        self._entropies, self._has_stopped = list(state["entropies"]), bool(state["has_stopped"])

    def _note(self, entropy: float) -> None:
        """Take an update's entropy; from the next update on, the rule may have stopped."""
        self._entropies = [*self._entropies, entropy][-self.window :]
        self._has_stopped = last_score(self._entropies) >= self.threshold
