"""Prompt-GDRO: tasks weigh the more, the worse their bin of difficulty is doing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rl.methods.estimators import reweighing
from rl.methods.estimators.tasks import difficulty
from rl.methods.estimators.turn_table import TokenAdvantages
from rl.methods.options import AboveOne, AboveZero, Count, NonNegative, Positive
from rl.records import Group, Trajectory


@dataclass
class hard_bins:
    """Prompt-GDRO (arXiv:2601.19280): advantages times the weight of their task's bin, 1 on average over the update.

    A task's bin is the share of its last `window` groups with any success, of several seats or roles those of the first
    (where seats have policies of their own, those of each); it leaves a bin only where that share is
    past the bin's edge by `margin`. A bin's score is a moving average of the failure rate of its groups, and its weight
    is exponential in the score. Weights of an update come from the updates before it.

    Attributes:
        eta: Sharpness of the weights.
        gamma: Share of equal weights.
        beta: Weight of an update in the moving average.
        window: Groups of a task that decide its bin.
        margin: Share of groups that a task must be beyond an edge.
        cap: Largest weight.

    """

    eta: Positive = 0.65
    gamma: AboveZero = 0.01
    beta: AboveZero = 0.12
    window: Count = 50
    margin: NonNegative = 0.03
    cap: AboveOne = 15.0
    _outcomes: dict[int, list[bool]] = field(default_factory=dict, init=False, compare=False)
    _bins: dict[int, str] = field(default_factory=dict, init=False, compare=False)
    _scores: dict[str, float] = field(default_factory=dict, init=False, compare=False)

    def __call__(self, groups: Sequence[Group], credit: TokenAdvantages) -> TokenAdvantages:
        """Return the weighed advantages."""
        bins = [self._bins.get(group.ticket.index, "0") for group in groups for _ in group.trajectories]
        if not bins:
            return credit
        weights = difficulty.mixture(bins, self._scores, eta=self.eta, gamma=self.gamma)
        factors = difficulty.mean_one(np.array([weights[label] for label in bins]), cap=self.cap)
        self._learn(groups)
        return reweighing.multiply(credit, factors)

    def state_dict(self) -> dict[str, Any]:
        """Outcomes and bin of each task, and scores by bin."""
        tasks = [[index, self._bins[index], list(outcomes)] for index, outcomes in self._outcomes.items()]
        return {"tasks": tasks, "scores": dict(self._scores)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore `state_dict()`."""
        self._scores = dict(state["scores"])
        self._bins = {index: label for index, label, _ in state["tasks"]}
        self._outcomes = {index: list(outcomes) for index, _, outcomes in state["tasks"]}

    def _learn(self, groups: Sequence[Group]) -> None:
        own = [(group.ticket, [one.success for one in group.trajectories if not _is_helped(one)]) for group in groups]
        results = [(ticket, successes) for ticket, successes in own if successes]
        labels = [self._bins.get(ticket.index, "0") for ticket, _ in results]
        losses = [1 - sum(successes) / len(successes) for _, successes in results]
        means = difficulty.bin_losses(labels, losses)
        self._scores = difficulty.update_scores(self._scores, means, beta=self.beta)
        first = {ticket.number: (ticket.index, any(successes)) for ticket, successes in reversed(results)}
        for index, is_won in reversed(first.values()):
            outcomes = [*self._outcomes.get(index, []), is_won]
            self._outcomes[index] = outcomes[-self.window :]
            before = self._bins.get(index, "0")
            self._bins[index] = difficulty.held_bin(before, self._outcomes[index], (), margin=self.margin)


def _is_helped(trajectory: Trajectory) -> bool:
    """Whether an episode says nothing of how hard its task is."""
    return bool(trajectory.replayed or trajectory.guided)
