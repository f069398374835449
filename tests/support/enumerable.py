"""A policy small enough to add up over everything it can do: exact gradients, and exact expectations of estimators."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations_with_replacement
from math import factorial, prod

import numpy as np

from envs.types import Stop
from rl.methods.recipe import Recipe
from rl.records import Completion, Group, Ticket, Trajectory, Turn

History = tuple[int, ...]
Act = Callable[[History], tuple[float, bool]]  # after this reply: its reward, and whether the episode is over


@dataclass
class Played:
    """One of all trajectories: how likely it is, what it earns, and the gradient of each turn's log-probability."""

    replies: History
    probability: float
    rewards: list[float]
    scores: np.ndarray  # (turns, parameters)


class Enumerable:
    """A softmax policy with logits of its own for every history; each reply is one token, and the history its state."""

    def __init__(self, act: Act, replies: int, *, seed: int = 0, spread: float = 1.0) -> None:
        """Walk through everything that `act` allows; logits are normal with deviation `spread`."""
        rng = np.random.default_rng(seed)
        self.place: dict[History, slice] = {}
        walked: list[tuple[History, list[float], list[tuple[slice, np.ndarray]], float]] = []
        open_: list[tuple[History, list[float], list[tuple[slice, np.ndarray]], float]] = [((), [], [], 1.0)]
        while open_:
            history, rewards, steps, likely = open_.pop()
            where = self.place.setdefault(history, slice(len(self.place) * replies, (len(self.place) + 1) * replies))
            logits = rng.normal(0.0, spread, replies)
            p = np.exp(logits) / np.exp(logits).sum()
            for reply in range(replies):
                after = (*history, reply)
                reward, done = act(after)
                score = np.eye(replies)[reply] - p
                found = (after, [*rewards, reward], [*steps, (where, score)], likely * p[reply])
                (walked if done else open_).append(found)
        self.size = len(self.place) * replies
        self.all = []
        for history, rewards, steps, likely in walked:
            scores = np.zeros((len(steps), self.size))
            for k, (where, score) in enumerate(steps):
                scores[k, where] = score
            self.all.append(Played(history, likely, rewards, scores))

    def gradient(self) -> np.ndarray:
        """Of the expected return: `sum of p * return * gradient of log p`."""
        return sum((t.probability * sum(t.rewards) * t.scores.sum(0) for t in self.all), np.zeros(self.size))

    def reached(self, history: History) -> float:
        """How likely an episode begins like this and goes on."""
        n = len(history)
        return sum(t.probability for t in self.all if t.replies[:n] == history and len(t.replies) > n)

    def still_playing(self, k: int) -> float:
        """How likely an episode has a turn `k`."""
        return sum(t.probability for t in self.all if len(t.replies) > k)

    def turn(self, k: int) -> np.ndarray:
        """1 on the parameters of choices in turn `k` (parameters,)."""
        mark = np.zeros(self.size)
        for history, where in self.place.items():
            mark[where] = len(history) == k
        return mark

    def expected(self, recipe: Recipe, size: int) -> np.ndarray:
        """The mean over all groups of `size` members of `sum over turns of credit * score`, averaged over members."""
        records = [trajectory(played) for played in self.all]
        chosen = list(combinations_with_replacement(range(len(records)), size))
        groups = [Group(Ticket(i, i, "train", 0, size), [records[m] for m in c]) for i, c in enumerate(chosen)]
        total = np.zeros(self.size)
        for members, credits in zip(chosen, recipe.credit(groups, recipe.normalization), strict=True):
            likely = prod(self.all[m].probability for m in members)
            orders = factorial(size) // prod(factorial(members.count(m)) for m in set(members))
            update = sum(c @ self.all[m].scores for m, c in zip(members, credits, strict=True))
            total += likely * orders * update / size
        return total


def trajectory(played: Played) -> Trajectory:
    """The record: one token per turn."""
    turns = []
    for k, (reply, reward) in enumerate(zip(played.replies, played.rewards, strict=True)):
        completion = Completion((reply,), (0.0,), (0.0,), (0,))
        turns.append(Turn((9,), completion, reward=reward, state=str(played.replies[:k]), metrics={"gain": 0.0}))
    return Trajectory(turns, Stop.TERMINATED)
