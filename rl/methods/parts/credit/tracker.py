"""Credit against what a task has been worth so far, in this update and in earlier ones, for few or single episodes.

Legend: B trajectories.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from rl.methods.estimators import priors, token_table, turn_table
from rl.methods.estimators.turn_table import TokenAdvantages
from rl.methods.options import Count, NonNegative, Positive, Share
from rl.methods.parts import BASELINE, SEVERAL, needs, traits
from rl.records import Group

if TYPE_CHECKING:
    from rl.methods.inputs import Normalization


@needs("ref", when="target")
@traits(BASELINE, excludes={SEVERAL: "it compares a task with its own past; use --size 1"})
@dataclass
class beta_value:
    """MSSR (arXiv:2512.18215): a return less the value of its task, a Beta distribution that forgets; standardised.

    The value of a task is `a / (a + b)`, 0.5 before its first episode; afterwards `a` and `b` shrink by `keep` and one
    of them gains 1, by whether the return is above 0.5. Values outlive the update and belong to a task's index.
    Advantages are divided by their standard deviation over the update and centred.

    Attributes:
        low: Least share of `a` and `b` that is kept at each episode.
        high: Largest share that is kept; the middle of the two is kept as long as no divergence is measured.
        target: Divergence, in nats per token, at which only `low` is kept; with 0 none is measured. It is that of the
            sampling policy from the reference, the mean of the last 20 updates, as released.
        released: Keep least also where the policy does not move, as released
        (`rl.methods.estimators.priors.forgetting`). prior: Episodes that the first guess is worth; the authors' is 8.

    """

    low: Share = 0.875
    high: Share = 0.96
    target: NonNegative = 0.0
    released: bool = False
    prior: Positive = 8.0
    _counts: dict[str, list[float]] = field(default_factory=dict, init=False, compare=False)
    _divergences: list[float] = field(default_factory=list, init=False, compare=False)

    def __call__(self, groups: Sequence[Group], norm: Normalization) -> TokenAdvantages:
        """Return the advantages of `groups`, the same for all tokens of a trajectory; `norm` is not read."""
        table = turn_table.from_groups(groups)
        tasks = [str(group.ticket.index) for group in groups for _ in group.trajectories]
        values = np.array([priors.beta_mean(*self._of(task)) for task in tasks])  # before this update
        if self.target:
            gap = token_table.sampler_logprobs(groups) - token_table.read_stream(groups, "ref")
            self._divergences = [*self._divergences, max(0.0, float(gap.mean())) if len(gap) else 0.0][-20:]
        keep = priors.forgetting(
            self._divergences, low=self.low, high=self.high, target=self.target, released=self.released
        )
        for task, value in zip(tasks, table.returns, strict=True):
            self._counts[task] = list(priors.update_beta(*self._of(task), float(value), keep=keep))
        return turn_table.trajectories_to_tokens(groups, table, priors.standardise(table.returns - values))

    def state_dict(self) -> dict[str, Any]:
        """The two numbers of each task, as `{"counts": {index: [a, b]}}`, and the last divergences."""
        counts = {task: list(pair) for task, pair in self._counts.items()}
        return {"counts": counts, "divergences": list(self._divergences)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore `state_dict()`."""
        self._counts = {task: list(pair) for task, pair in state["counts"].items()}
        self._divergences = list(state["divergences"])

    def _of(self, task: str) -> tuple[float, float]:
        a, b = self._counts.get(task, (self.prior / 2, self.prior / 2))
        return a, b


@traits(BASELINE)
@dataclass
class fused_prior:
    """V_0.5 (arXiv:2603.10848): the group's mean, drawn towards what was expected of the task as far as chance allows.

    With `m` the mean of `k` rewards between -1 and 1, `V` the value that was expected and `s = 1 / k`, the baseline is
    `w m + (1 - w) V` with `w = D / (D + s)`, `D = max(0, (m - V)^2 - s)`: where the mean is as near as chance would put
    it, `V` alone. Rewards of 0 and 1 are read as -1 and 1. `V` is the mean of the task's last `window` groups, blended
    with that of all tasks as if the latter had been seen `smoothing` times; before the first update it is the mean `m`.

    Attributes:
        window: Groups of a task that its value is the mean of.
        smoothing: Weight of the mean over all tasks, in groups.

    """

    window: Count = 4
    smoothing: Positive = 1.0
    _means: dict[str, list[float]] = field(default_factory=dict, init=False, compare=False)
    _all: list[float] = field(default_factory=list, init=False, compare=False)

    def __call__(self, groups: Sequence[Group], norm: Normalization) -> TokenAdvantages:
        """Return the advantages of `groups`, the same for all tokens of a trajectory; `norm` is not read."""
        table = turn_table.from_groups(groups)
        rewards = 2 * table.returns - 1
        advantages, means = np.zeros_like(rewards), []
        for number, group in enumerate(groups):
            rows = table.group == number
            if rows.any():
                mean = float(rewards[rows].mean())
                means.append((str(group.ticket.index), mean))
                prior = self._expect(str(group.ticket.index), mean)
                advantages[rows] = rewards[rows] - priors.fuse(mean, prior, int(rows.sum()))
        for task, mean in means:  # only now, so that no reward is part of its own prior
            self._means[task] = [*self._means.get(task, []), mean][-self.window :]
            self._all = [*self._all, mean][-64:]
        return turn_table.trajectories_to_tokens(groups, table, advantages)

    def state_dict(self) -> dict[str, Any]:
        """The last means of each task and of all."""
        return {"means": {task: list(values) for task, values in self._means.items()}, "all": list(self._all)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore `state_dict()`."""
        self._means = {task: list(values) for task, values in state["means"].items()}
        self._all = list(state["all"])

    def _expect(self, task: str, mean: float) -> float:
        if not self._all:
            return mean
        return priors.blend(self._means.get(task, []), self._all, smoothing=self.smoothing)
