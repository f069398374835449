"""VADE: tasks are drawn by what is believed of their success rates, as a bandit draws its arms."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rl.methods.options import Share
from rl.methods.parts.sampler.history import History, Result


@dataclass
class variance_bandit:
    """VADE (arXiv:2511.18902): draw the task whose success rate, drawn from what is believed of it, varies most.

    Each task has a Beta distribution, `(1, 1)` at first, which gains the successes and the failures of its groups. A
    draw takes a rate `p` from each and returns the task with the largest `p (1 - p)`; a task that is being played is
    left out while there are others. What was believed shrinks towards `(1, 1)`: of all tasks to the share `keep` at
    each update, and of one task to `renew` before it gains a group. A group that was played over several updates gains
    as if it had shrunk since.

    Attributes:
        keep: Share of what was believed that an update leaves.
        renew: Share that a task's new group leaves of its old ones.
        uniform: Chance of drawing any task instead.

    """

    keep: Share = 0.99
    renew: Share = 0.7
    uniform: Share = 0.1
    _num_read: int = field(default=0, init=False, compare=False)
    _update: int = field(default=0, init=False, compare=False)
    _counts: dict[int, tuple[float, float, int]] = field(default_factory=dict, init=False, compare=False)

    def __call__(self, history: History, rng: np.random.Generator) -> int:
        """Return the index of a task."""
        for result in history.since(self._num_read):
            self._read(result)
        self._num_read = history.num_results
        idle = np.flatnonzero(history.pending == 0)
        candidates = idle if len(idle) else np.arange(history.num_tasks)
        if rng.random() < self.uniform:
            return int(rng.choice(candidates))
        beliefs = np.ones((history.num_tasks, 2))
        for index in self._counts:
            beliefs[index] = self.belief(index)
        rates = rng.beta(beliefs[candidates, 0], beliefs[candidates, 1])
        return int(candidates[np.argmax(rates * (1 - rates))])

    def belief(self, index: int) -> tuple[float, float]:
        """The two numbers of the Beta distribution of task `index` at the last update that is known of."""
        wins, losses, update = self._counts.get(index, (0.0, 0.0, self._update))
        weight = self.keep ** (self._update - update)
        return 1 + weight * wins, 1 + weight * losses

    def state_dict(self) -> dict[str, Any]:
        """What is believed of each task and when, and how far the history has been read."""
        counts = {str(index): list(numbers) for index, numbers in self._counts.items()}
        return {"read": self._num_read, "update": self._update, "counts": counts}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore `state_dict()`."""
        self._num_read, self._update = state["read"], state["update"]
        self._counts = {int(index): (a, b, at) for index, (a, b, at) in state["counts"].items()}

    def _read(self, result: Result) -> None:
        self._update = max(self._update, result.update)
        wins, losses = (self.renew * (number - 1) for number in self.belief(result.task))
        weight = self.keep**result.lag
        wins += weight * result.successes
        losses += weight * (result.size - result.successes)
        self._counts[result.task] = (wins, losses, self._update)
