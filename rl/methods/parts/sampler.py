"""Which task is played next: `(history, rng) -> index`. A sampler is called through `History.draw`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rl.methods.options import Share


@dataclass(eq=False)
class History:
    """What a sampler may know of the tasks `0 .. num_tasks - 1`.

    `draws` counts how often a task was handed out, finished or not. `rewards[i]` holds the mean reward of each
    finished group of task `i`, oldest first; groups may finish late, out of order or not at all.
    """

    num_tasks: int
    draws: np.ndarray = field(init=False)  # (num_tasks,) int64
    rewards: dict[int, list[float]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        """Start with no task drawn."""
        if self.num_tasks < 1:
            raise ValueError(f"a history needs at least one task, not {self.num_tasks}")
        self.draws = np.zeros(self.num_tasks, dtype=np.int64)

    def draw(self, sampler: Callable[[History, np.random.Generator], int], rng: np.random.Generator) -> int:
        """Ask `sampler` for a task and count it."""
        index = int(sampler(self, rng))
        self.draws[index] += 1
        return index

    def record(self, index: int, mean_reward: float) -> None:
        """Add a finished group of task `index`."""
        self.rewards.setdefault(index, []).append(float(mean_reward))

    def visits(self, index: int) -> int:
        """How many groups of task `index` have finished."""
        return len(self.rewards.get(index, ()))

    def state_dict(self) -> dict[str, Any]:
        """JSON-able state."""
        rewards = {str(index): list(means) for index, means in self.rewards.items()}
        return {"num_tasks": self.num_tasks, "draws": self.draws.tolist(), "rewards": rewards}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from `state_dict()`. Raises `ValueError` when the number of tasks has changed."""
        if state["num_tasks"] != self.num_tasks:
            raise ValueError(f"the history is of {state['num_tasks']} tasks, but there are {self.num_tasks}")
        self.draws = np.array(state["draws"], dtype=np.int64)
        self.rewards = {int(index): list(means) for index, means in state["rewards"].items()}


def uniform(history: History, rng: np.random.Generator) -> int:
    """Any task, independently of what came before."""
    return int(rng.integers(history.num_tasks))


def shuffled(history: History, rng: np.random.Generator) -> int:
    """Any of the tasks drawn least often: each epoch is a new random order of all tasks, none of them twice."""
    return int(rng.choice(np.flatnonzero(history.draws == history.draws.min())))


def skip_solved(history: History, rng: np.random.Generator, *, solved: float = 1.0, keep: Share = 0.1) -> int:
    """Any task, but one whose last group had a mean reward of at least `solved` comes up `keep` times as often.

    After GRESO (arXiv:2506.02177) in its simplest form; unsolved tasks are not skipped.
    """
    weight = np.ones(history.num_tasks)
    for index, means in history.rewards.items():
        if means[-1] >= solved:
            weight[index] = keep
    total = weight.sum()
    return int(rng.choice(history.num_tasks, p=weight / total)) if total > 0 else uniform(history, rng)
