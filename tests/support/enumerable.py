"""A policy small enough to enumerate all its episodes: exact gradients, and exact expectations of estimators."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from itertools import combinations_with_replacement
from math import factorial, prod

import numpy as np

from envs.types import Stop
from rl.methods.recipe import Recipe
from rl.records import Completion, Group, Ticket, Trajectory, Turn

History = tuple[int, ...]
Act = Callable[[History], tuple[float, bool]]  # from all replies so far: the last one's reward, and whether it is over
Step = tuple[slice, np.ndarray, float, float]  # where its logits are, its score, log p, and the sum of p^2
Prefix = tuple[History, list[float], list[Step], float]  # replies, rewards, steps, probability


@dataclass
class Episode:
    """One of all episodes: its probability, its rewards, and the gradient of each turn's log-probability."""

    replies: History
    probability: float
    rewards: list[float]
    scores: np.ndarray  # (turns, parameters)
    logprobs: list[float]
    squares: list[float]
    states: list[str]


class Enumerable:
    """A softmax policy with logits of its own for every view of the history; each reply is one token.

    The policy's `view` and the `state` by which credit groups turns are functions of the history, by default itself.
    """

    def __init__(
        self,
        act: Act,
        replies: int,
        *,
        seed: int = 0,
        spread: float = 1.0,
        view: Callable[[History], Hashable] = tuple,
        state: Callable[[History], Hashable] = tuple,
    ) -> None:
        """Enumerate everything that `act` allows; logits are normal with deviation `spread`."""
        rng = np.random.default_rng(seed)
        self.place: dict[Hashable, slice] = {}
        logits_at: dict[Hashable, np.ndarray] = {}
        complete: list[Prefix] = []
        incomplete: list[Prefix] = [((), [], [], 1.0)]
        while incomplete:
            history, rewards, steps, probability = incomplete.pop()
            seen = view(history)
            where = self.place.setdefault(seen, slice(len(self.place) * replies, (len(self.place) + 1) * replies))
            if seen not in logits_at:
                logits_at[seen] = rng.normal(0.0, spread, replies)
            logits = logits_at[seen]
            p = np.exp(logits) / np.exp(logits).sum()
            for reply in range(replies):
                after = (*history, reply)
                reward, done = act(after)
                score = np.eye(replies)[reply] - p
                prefix = (
                    after,
                    [*rewards, reward],
                    [*steps, (where, score, float(np.log(p[reply])), float((p**2).sum()))],
                    probability * p[reply],
                )
                (complete if done else incomplete).append(prefix)
        self.size = len(self.place) * replies
        self.all = []
        for history, rewards, steps, probability in complete:
            scores = np.zeros((len(steps), self.size))
            for k, (where, score, _, _) in enumerate(steps):
                scores[k, where] = score
            logprobs, squares = [step[2] for step in steps], [step[3] for step in steps]
            states = [str(state(history[:k])) for k in range(len(steps))]
            self.all.append(Episode(history, probability, rewards, scores, logprobs, squares, states))

    def gradient(self) -> np.ndarray:
        """The gradient of the expected return: `sum of p * return * gradient of log p`."""
        return sum((t.probability * sum(t.rewards) * t.scores.sum(0) for t in self.all), np.zeros(self.size))

    def reached(self, history: History) -> float:
        """The probability that an episode begins with `history` and goes on."""
        n = len(history)
        return sum(t.probability for t in self.all if t.replies[:n] == history and len(t.replies) > n)

    def still_playing(self, k: int) -> float:
        """The probability that an episode has a turn `k`."""
        return sum(t.probability for t in self.all if len(t.replies) > k)

    def turn(self, k: int) -> np.ndarray:
        """1 on the parameters of choices in turn `k` (parameters,)."""
        mark = np.zeros(self.size)
        for history, where in self.place.items():
            mark[where] = len(history) == k  # type: ignore[arg-type]
        return mark

    def expected(self, recipe: Recipe, size: int) -> np.ndarray:
        """The mean over all groups of `size` members of `sum over turns of credit * score`, averaged over members."""
        return self.moments(recipe, size)[0]

    def moments(self, recipe: Recipe, size: int, *, markov: bool = False) -> tuple[np.ndarray, float]:
        """`expected`, and the variance of that update of one group, summed over parameters."""
        records = [make_trajectory(episode, markov=markov) for episode in self.all]
        combinations = list(combinations_with_replacement(range(len(records)), size))
        groups = [Group(Ticket(i, i, "train", 0, size), [records[m] for m in c]) for i, c in enumerate(combinations)]
        total, square = np.zeros(self.size), 0.0
        for members, credits in zip(combinations, recipe.credit(groups, recipe.normalization), strict=True):
            probability = prod(self.all[m].probability for m in members)
            orders = factorial(size) // prod(factorial(members.count(m)) for m in set(members))
            update = sum(c @ self.all[m].scores for m, c in zip(members, credits, strict=True)) / size
            total += probability * orders * update
            square += probability * orders * (update @ update)
        return total, float(square - total @ total)


def make_trajectory(episode: Episode, *, markov: bool = False) -> Trajectory:
    """The record of an episode: one token per turn."""
    turns = []
    for k, (reply, reward) in enumerate(zip(episode.replies, episode.rewards, strict=True)):
        completion = Completion((reply,), (episode.logprobs[k],), (episode.logprobs[k],), (0,))
        streams = {"square": (episode.squares[k],)}
        turns.append(
            Turn((9,), completion, reward=reward, state=episode.states[k], metrics={"gain": 0.0}, streams=streams)
        )
    return Trajectory(turns, Stop.TERMINATED, markov=markov)
