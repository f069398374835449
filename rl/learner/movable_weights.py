"""The trained weights between two passes of an update, for the recipe's slot `passes`."""

from __future__ import annotations

import torch
from torch import Tensor

from rl.learner.adamw import Float32AdamW
from rl.learner.diagnostics import Diagnostics
from rl.learner.ranks.division import Ranks


class MovableWeights:
    """What `rl.methods.parts.passes.Weights` asks for: the optimiser's masters, and the entropy of the last pass."""

    def __init__(self, optimizer: Float32AdamW, diagnostics: Diagnostics, ranks: Ranks) -> None:
        """Take the optimiser, the running sums of the update that it is in, and the ranks that make it."""
        self._optimizer, self._diagnostics, self._ranks = optimizer, diagnostics, ranks
        self._entropy = self._count = 0.0  # summed up to the last question

    def copy(self) -> list[Tensor]:
        """Return a copy of every master."""
        return [master.detach().clone() for master in self._optimizer.masters]

    def move(self, start: list[Tensor], share: float) -> None:
        """Set every master to `start + share * (master - start)`, and round it into its weight."""
        with torch.no_grad():
            for master, origin in zip(self._optimizer.masters, start, strict=True):
                master.copy_(origin.lerp(master, share))
            for weight, master in self._optimizer.pairs:
                weight.copy_(master)

    def entropy(self) -> float:
        """Return the mean entropy over the tokens that were trained on since the last call."""
        sums = self._diagnostics.sums
        count, entropy = self._ranks.total(torch.zeros(2) if sums is None else sums[:2]).tolist()
        mean = (entropy - self._entropy) / max(count - self._count, 1.0)
        self._count, self._entropy = count, entropy
        return mean
