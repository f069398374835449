"""Which task is played next: `(history, rng) -> index`. The training loop calls a sampler through `History.draw`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rl.methods.options import Count, Share


@dataclass(eq=False)
class History:
    """Draws and results of the tasks `0 .. num_tasks - 1`: what a sampler may read.

    `draws` counts how often each task was drawn, finished or not. `rewards[i]` holds the mean reward of each finished
    group of task `i`, in the order in which they finished; groups may finish late, out of order or not at all.
    Raises `ValueError` where there is no task.
    """

    num_tasks: int
    draws: np.ndarray = field(init=False)  # (num_tasks,) int64
    rewards: dict[int, list[float]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        """Set all counts to 0."""
        if self.num_tasks < 1:
            raise ValueError(f"a history needs at least one task, not {self.num_tasks}")
        self.draws = np.zeros(self.num_tasks, dtype=np.int64)

    def draw(self, sampler: Callable[[History, np.random.Generator], int], rng: np.random.Generator) -> int:
        """Draw the index of a task with `sampler`, count it in `draws` and return it."""
        index = int(sampler(self, rng))
        self.draws[index] += 1
        return index

    def record(self, index: int, mean_reward: float) -> None:
        """Add the mean reward of a finished group of task `index`."""
        self.rewards.setdefault(index, []).append(float(mean_reward))

    def visits(self, index: int) -> int:
        """Number of finished groups of task `index`."""
        return len(self.rewards.get(index, ()))

    def state_dict(self) -> dict[str, Any]:
        """The state as JSON-able data, for `load_state_dict`."""
        rewards = {str(index): list(means) for index, means in self.rewards.items()}
        return {"num_tasks": self.num_tasks, "draws": self.draws.tolist(), "rewards": rewards}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore `state_dict()`. Raises `ValueError` when the number of tasks has changed."""
        if state["num_tasks"] != self.num_tasks:
            raise ValueError(f"the history is of {state['num_tasks']} tasks, but there are {self.num_tasks}")
        self.draws = np.array(state["draws"], dtype=np.int64)
        self.rewards = {int(index): list(means) for index, means in state["rewards"].items()}


def uniform(history: History, rng: np.random.Generator) -> int:
    """Draw any task with equal probability, independently of earlier draws."""
    return int(rng.integers(history.num_tasks))


def shuffled(history: History, rng: np.random.Generator) -> int:
    """Draw any of the tasks drawn least often: each epoch is a new random order in which every task comes once."""
    return int(rng.choice(np.flatnonzero(history.draws == history.draws.min())))


def skip_solved(history: History, rng: np.random.Generator, *, solved: float = 1.0, keep: Share = 0.1) -> int:
    """Draw any task, but with `keep` times the chance of others if its last group's mean reward reached `solved`.

    A simple form of GRESO (arXiv:2506.02177); tasks that are never solved are not skipped.
    """
    weight = np.ones(history.num_tasks)
    for index, means in history.rewards.items():
        if means[-1] >= solved:
            weight[index] = keep
    total = weight.sum()
    return int(rng.choice(history.num_tasks, p=weight / total)) if total > 0 else uniform(history, rng)


def in_reach(
    history: History,
    rng: np.random.Generator,
    *,
    kinds: Count,
    low: Share = 0.2,
    high: Share = 0.6,
    keep: Share = 0.1,
    window: Count = 20,
) -> int:
    """TRACE: draw from kinds of tasks that the policy solves now and then, `low` to `high`; others with chance `keep`.

    Task i is of kind i % `kinds`, as in `variants:ID`. A kind's success is the mean reward of the last group of each of
    its `window` tasks that were first finished most recently; until it has a quarter of them it is drawn like one
    within reach. The band is that within which TRACE accepts an environment for a capability; TRACE itself judges once,
    before training, this sampler at every draw. Rewards are taken to lie between 0 and 1.
    """
    kinds = min(kinds, history.num_tasks)
    recent: list[list[float]] = [[] for _ in range(kinds)]
    for index in reversed(history.rewards):
        means = recent[index % kinds]
        if len(means) < window:
            means.append(history.rewards[index][-1])
    weight = np.array([1.0 if 4 * len(means) < window or low <= np.mean(means) <= high else keep for means in recent])
    weight = weight if weight.any() else np.ones(kinds)
    kind = int(rng.choice(kinds, p=weight / weight.sum()))
    return kind + kinds * int(rng.integers((history.num_tasks - kind + kinds - 1) // kinds))
