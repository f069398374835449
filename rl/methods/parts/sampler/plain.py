"""Samplers that read a task's draws and its last results, and remember nothing of their own."""

from __future__ import annotations

import numpy as np

from rl.methods.options import Count, Share
from rl.methods.parts.sampler.history import History


def uniform(history: History, rng: np.random.Generator) -> int:
    """Draw any task with equal probability, independently of earlier draws."""
    return int(rng.integers(history.num_tasks))


def shuffled(history: History, rng: np.random.Generator) -> int:
    """Draw any of the tasks drawn least often: each epoch is a new random order in which every task comes once."""
    fewest = np.flatnonzero(history.draws == history.draws.min())
    return int(fewest[rng.integers(len(fewest))])  # as `rng.choice` draws, which takes twice as long


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


def difficulty_pool(
    history: History, rng: np.random.Generator, *, low: Share = 0.25, high: Share = 0.75, keep: Share = 0.2
) -> int:
    """Draw any task, those whose last mean reward was not within `low` and `high` with `keep` times the chance.

    The pools of easy, medium and hard tasks of prime-rl; a task without a result counts as medium. Rewards are taken to
    lie between 0 and 1.
    """
    weight = np.ones(history.num_tasks)
    for index, means in history.rewards.items():
        if not low < means[-1] <= high:
            weight[index] = keep
    total = weight.sum()
    return int(rng.choice(history.num_tasks, p=weight / total)) if total > 0 else int(rng.integers(history.num_tasks))
