"""VCRL: tasks that were worth learning come back in the place of those that were not."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rl.methods.estimators.tasks import difficulty
from rl.methods.options import Count, Natural, Share
from rl.methods.parts.sampler.history import History
from rl.methods.parts.sampler.plain import shuffled


@dataclass
class variance_bank:
    """VCRL (arXiv:2509.19803): draw in random order; a group that was not kept is replaced by a task from a bank.

    A task enters the bank when a group of it is kept, at a priority that is the variance of its rewards as a share of
    the largest possible one. Each further group leaves `momentum` of the priority. A task leaves the bank after it was
    drawn from there `replays` times, until it has been drawn in random order again, or for a better one where the bank
    is full. Tasks are played anew, never replayed.

    Attributes:
        momentum: Share of a task's priority that a new group leaves.
        replays: How often a task may be drawn from the bank.
        most: Tasks in the bank.

    """

    momentum: Share = 0.9
    replays: Count = 2
    most: Natural = 512
    _num_read: int = field(default=0, init=False, compare=False)
    _gaps: int = field(default=0, init=False, compare=False)  # groups that are to be replaced
    _bank: dict[int, tuple[float, int]] = field(default_factory=dict, init=False, compare=False)  # priority, replays
    _barred_tasks: set[int] = field(
        default_factory=set, init=False, compare=False
    )  # until they are drawn in random order

    def __call__(self, history: History, rng: np.random.Generator) -> int:
        """Return the index of a task."""
        for result in history.since(self._num_read):
            share = difficulty.variance_share(result.successes, result.size)
            if result.task in self._bank:
                priority, num_replays = self._bank[result.task]
                self._bank[result.task] = self.momentum * priority + (1 - self.momentum) * share, num_replays
            elif result.is_kept and result.task not in self._barred_tasks:
                self._bank[result.task] = share, 0
            self._gaps += not result.is_kept
        self._num_read = history.num_results
        while len(self._bank) > self.most:
            least = min(self._bank, key=lambda index: self._bank[index][0])
            del self._bank[least]
            if history.pending[least]:  # its group that is being played does not bring it back
                self._barred_tasks.add(least)
        idle = [index for index in self._bank if not history.pending[index]]
        if not (self._gaps and idle):
            index = shuffled(history, rng)
            self._barred_tasks.discard(index)
            return index
        self._gaps -= 1
        index = max(idle, key=lambda one: self._bank[one][0])
        priority, num_replays = self._bank.pop(index)
        if num_replays + 1 < self.replays:
            self._bank[index] = priority, num_replays + 1
        else:
            self._barred_tasks.add(index)
        return index

    def state_dict(self) -> dict[str, Any]:
        """The bank, the tasks that have left it, the groups to be replaced, and how far the history has been read."""
        bank = [[index, *entry] for index, entry in self._bank.items()]
        return {"read": self._num_read, "gaps": self._gaps, "bank": bank, "barred": sorted(self._barred_tasks)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore `state_dict()`."""
        self._num_read, self._gaps = state["read"], state["gaps"]
        self._bank = {index: (priority, num_replays) for index, priority, num_replays in state["bank"]}
        self._barred_tasks = set(state.get("barred", ()))  # a checkpoint from before it was counted has none
