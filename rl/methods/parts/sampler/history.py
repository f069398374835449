"""Draws and results of tasks, which samplers and the parts that allot episodes read."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from rl.methods.options import PartError
from rl.methods.results import part_label, wrong_task

MOST_RESULTS = 4096  # that are remembered one by one
RECENT_DRAWS = 1000  # over which coverage is measured


class Result(NamedTuple):
    """What came of a ticket: the mean reward of its task's group, and how its members' rewards were distributed."""

    task: int  # its index
    mean: float
    successes: int = 0
    size: int = 1  # members with a reward
    is_varied: bool = True  # whether rewards differed
    is_kept: bool = True  # whether there was anything to train on
    update: int = 0  # updates that had been made when it ended
    lag: int = 0  # updates that were made while it was played


@dataclass(eq=False)
class History:
    """Draws and results of the tasks `0 .. num_tasks - 1`: what a sampler may read.

    `draws` counts how often each task was drawn, finished or not, `pending` how many of its tickets are being played.
    `rewards[i]` holds the mean reward of each finished group of task `i`, in the order in which they finished; groups
    may finish late, out of order or not at all. `num_results` counts the results so far, of which `since` returns the
    latest. Raises `ValueError` where there is no task.
    """

    num_tasks: int
    tasks_digest: str = ""  # of what the tasks are
    draws: np.ndarray = field(init=False)  # (num_tasks,) int64
    pending: np.ndarray = field(init=False)  # (num_tasks,) int64
    rewards: dict[int, tuple[float, ...]] = field(init=False, default_factory=dict)
    num_results: int = field(init=False, default=0)
    _results: list[Result] = field(init=False, default_factory=list)
    _recent_draws: list[int] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        """Set all counts to 0."""
        if self.num_tasks < 1:
            raise ValueError(f"a history needs at least one task, not {self.num_tasks}")
        self.draws = np.zeros(self.num_tasks, dtype=np.int64)
        self.pending = np.zeros(self.num_tasks, dtype=np.int64)

    def draw(self, sampler: Callable[[History, np.random.Generator], int], rng: np.random.Generator) -> int:
        """Draw the index of a task with `sampler`, count it in `draws` and `pending`, and return it.

        Raises `PartError` for a sampler that returns anything else than the index of a task.
        """
        index = sampler(self, rng)
        if fault := wrong_task(index, self.num_tasks):
            raise PartError(f"{part_label('sampler', sampler)}: {fault}")
        index = int(index)
        self.draws[index] += 1
        self.pending[index] += 1
        self._recent_draws = [*self._recent_draws, index][-RECENT_DRAWS:]
        return index

    def record(self, index: int, mean_reward: float, **details: Any) -> None:
        """Add the mean reward of a finished group of task `index`, with what `Result` has besides."""
        self.rewards[index] = (*self.rewards.get(index, ()), float(mean_reward))
        self._results.append(Result(index, float(mean_reward), **details))
        if len(self._results) > 2 * MOST_RESULTS:
            del self._results[:-MOST_RESULTS]
        self.num_results += 1

    def close(self, index: int) -> None:
        """Count a ticket of task `index` as ended, with or without a result."""
        self.pending[index] = max(0, self.pending[index] - 1)

    def since(self, number: int) -> list[Result]:
        """The results after the first `number`, in the order in which they came, of which 4096 at least are known."""
        missing = min(self.num_results - number, len(self._results))
        return self._results[-missing:] if missing > 0 else []

    def visits(self, index: int) -> int:
        """Number of finished groups of task `index`."""
        return len(self.rewards.get(index, ()))

    def coverage(self) -> dict[str, float]:
        """The metrics that any choice of tasks is judged by: what share of them it reaches at all, and lately."""
        recent = len(self._recent_draws)
        return {
            "tasks/coverage": float((self.draws > 0).mean()),
            "tasks/recent": len(set(self._recent_draws)) / max(1, min(recent, self.num_tasks)),
        }

    def snapshot(self) -> History:
        """A copy that stays as it is, made after every update: far cheaper than `state_dict` for thousands of tasks."""
        result = copy(self)
        result.draws, result.pending = self.draws.copy(), self.pending.copy()
        result.rewards, result._results = self.rewards.copy(), self._results.copy()
        return result

    def snapshot_of_draws(self) -> tuple[np.ndarray, np.ndarray, list[int]]:
        """What `draw` changes, for `restore_draws`."""
        return self.draws.copy(), self.pending.copy(), self._recent_draws

    def restore_draws(self, draws: tuple[np.ndarray, np.ndarray, list[int]]) -> None:
        """Go back to an earlier `snapshot_of_draws`."""
        self.draws, self.pending, self._recent_draws = draws

    def state_dict(self) -> dict[str, Any]:
        """The state as JSON-able data, for `load_state_dict`."""
        return {
            "num_tasks": self.num_tasks,
            "tasks_digest": self.tasks_digest,
            "draws": self.draws.tolist(),
            "pending": self.pending.tolist(),
            "rewards": {str(index): list(means) for index, means in self.rewards.items()},
            "num_results": self.num_results,
            "results": [list(result) for result in self._results[-MOST_RESULTS:]],
            "recent": list(self._recent_draws),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore `state_dict()`. Raises `ValueError` when the number of tasks has changed."""
        if state["num_tasks"] != self.num_tasks:
            raise ValueError(f"the history is of {state['num_tasks']} tasks, but there are {self.num_tasks}")
        self.draws = np.array(state["draws"], dtype=np.int64)
        self.pending = np.array(state.get("pending", [0] * self.num_tasks), dtype=np.int64)
        self.rewards = {int(index): tuple(means) for index, means in state["rewards"].items()}
        self.num_results = state.get("num_results", 0)
        self._results = [Result(*one) for one in state.get("results", ())]
        self._recent_draws = list(state.get("recent", ()))
