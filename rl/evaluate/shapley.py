"""Shapley values: how much of a result each of several parts is worth, over all ways of switching them on and off."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from math import factorial

import numpy as np
from numpy.typing import ArrayLike

from rl.evaluate.statistics import Interval, cluster_bootstrap

EXACT = 10  # players up to which all coalitions are valued
ORDERS = 200  # random orders beyond, each used forwards and backwards

Value = Callable[[frozenset[str]], ArrayLike]


@dataclass(frozen=True, slots=True)
class Worth:
    """A player's Shapley value with its 95 % interval over tasks; (nan, nan) where there is one task, or no spread."""

    value: float
    interval: Interval


def shapley(
    players: Sequence[str],
    value: Value,
    *,
    rng: np.random.Generator,
    exact: int = EXACT,
    orders: int = ORDERS,
) -> dict[str, Worth]:
    """Compute each player's Shapley value: the mean of what it adds to the coalition that was there before it.

    `value(coalition)` is a number, or one number per task, always of the same tasks; it is asked once per coalition.
    With n players, sum over S without i of |S|! (n - |S| - 1)! / n! (v(S + i) - v(S)) (Shapley 1953): over all 2^n
    coalitions for n <= `exact`, else over `orders` random orders and their reverses (antithetic pairs), unbiased. The
    values sum to v(all) - v(none) either way. Raises `ValueError` without players, for one named twice, or for
    numbers of tasks that differ.
    """
    if not players or len(set(players)) < len(players):
        raise ValueError(f"players must be named once each, and at least one: {', '.join(players) or 'none'}")
    size: list[int] = []

    @cache
    def per_task(coalition: frozenset[str]) -> np.ndarray:
        found = np.atleast_1d(np.asarray(value(coalition), dtype=float))
        size.append(found.size)
        if found.ndim != 1 or not found.size or found.size != size[0]:
            raise ValueError(f"the value of {sorted(coalition)} has shape {found.shape}, not one number per task")
        return found

    parts = _exact(players, per_task) if len(players) <= exact else _sampled(players, per_task, rng, orders)
    return {player: Worth(float(part.mean()), cluster_bootstrap(part, rng)) for player, part in parts.items()}


def _exact(players: Sequence[str], per_task: Callable[[frozenset[str]], np.ndarray]) -> dict[str, np.ndarray]:
    """Each player's value on each task."""
    n = len(players)
    found = {}
    for player in players:
        others = [other for other in players if other != player]
        terms = [
            factorial(size)
            * factorial(n - size - 1)
            / factorial(n)
            * (per_task(frozenset((*chosen, player))) - per_task(frozenset(chosen)))
            for size in range(n)
            for chosen in combinations(others, size)
        ]
        found[player] = np.sum(terms, axis=0)
    return found


def _sampled(
    players: Sequence[str],
    per_task: Callable[[frozenset[str]], np.ndarray],
    rng: np.random.Generator,
    orders: int,
) -> dict[str, np.ndarray]:
    """Each player's mean gain on each task over random orders and their reverses."""
    found = {player: np.zeros_like(per_task(frozenset())) for player in players}
    for _ in range(orders):
        order = [players[i] for i in rng.permutation(len(players))]
        for sequence in (order, order[::-1]):
            before = per_task(frozenset())
            for place, player in enumerate(sequence, 1):
                after = per_task(frozenset(sequence[:place]))
                found[player] += (after - before) / (2 * orders)
                before = after
    return found
