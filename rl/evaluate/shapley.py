"""Shapley values: the share of each of several parts in a result, averaged over all orders of switching them on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from math import factorial

import numpy as np
from numpy.typing import ArrayLike

from rl.evaluate.statistics import Interval, cluster_bootstrap

EXACT_PARTS = 10  # most parts for which all coalitions are evaluated
ORDERS = 200  # random orders for more parts, each used forwards and backwards

Coalition = frozenset[str]
CoalitionValue = Callable[[Coalition], ArrayLike]
TaskValues = Callable[[Coalition], np.ndarray]  # (tasks,)


@dataclass(frozen=True, slots=True)
class ShapleyValue:
    """A part's Shapley value and its 95 % interval over tasks, which is (nan, nan) for one task or without spread."""

    value: float
    interval: Interval


def shapley(
    parts: Sequence[str],
    value: CoalitionValue,
    *,
    rng: np.random.Generator,
    exact: int = EXACT_PARTS,
    orders: int = ORDERS,
) -> dict[str, ShapleyValue]:
    """Compute each part's Shapley value: the mean of what it adds to the parts that were switched on before it.

    Shapley 1953: the value of part i of n is the sum over all sets S without i of
    |S|! (n - |S| - 1)! / n! (v(S + i) - v(S)). For n <= `exact` it is computed from all 2^n coalitions, otherwise
    estimated without bias from random orders and their reverses (antithetic pairs). Either way the values sum to
    v(all) - v(none).

    Args:
        parts: Names of the parts.
        value: Returns the result with a coalition of parts switched on: a number, or (tasks,) numbers of always the
            same tasks. Called once per coalition.
        rng: Draws the orders and the bootstrap of the intervals.
        exact: Most parts for which all coalitions are evaluated.
        orders: Number of random orders beyond that.

    Raises:
        ValueError: There are no parts, a name occurs twice, or the numbers of tasks differ.
    """
    if not parts or len(set(parts)) < len(parts):
        raise ValueError(f"parts must be named once each, and at least one: {', '.join(parts) or 'none'}")
    sizes: list[int] = []

    @cache
    def task_values(coalition: Coalition) -> np.ndarray:
        values = np.atleast_1d(np.asarray(value(coalition), dtype=float))
        sizes.append(values.size)
        if values.ndim != 1 or not values.size or values.size != sizes[0]:
            raise ValueError(f"the value of {sorted(coalition)} has shape {values.shape}, not one number per task")
        return values

    by_part = _compute(parts, task_values) if len(parts) <= exact else _estimate(parts, task_values, rng, orders)
    return {part: ShapleyValue(float(v.mean()), cluster_bootstrap(v, rng)) for part, v in by_part.items()}


def _compute(parts: Sequence[str], task_values: TaskValues) -> dict[str, np.ndarray]:
    """Each part's value on each task (tasks,), from all coalitions."""
    n = len(parts)
    values = {}
    for part in parts:
        others = [other for other in parts if other != part]
        terms = [
            factorial(size)
            * factorial(n - size - 1)
            / factorial(n)
            * (task_values(frozenset((*subset, part))) - task_values(frozenset(subset)))
            for size in range(n)
            for subset in combinations(others, size)
        ]
        values[part] = np.sum(terms, axis=0)
    return values


def _estimate(
    parts: Sequence[str], task_values: TaskValues, rng: np.random.Generator, orders: int
) -> dict[str, np.ndarray]:
    """Each part's mean gain on each task (tasks,), over random orders and their reverses."""
    values = {part: np.zeros_like(task_values(frozenset())) for part in parts}
    for _ in range(orders):
        order = [parts[i] for i in rng.permutation(len(parts))]
        for sequence in (order, order[::-1]):
            before = task_values(frozenset())
            for count, part in enumerate(sequence, 1):
                after = task_values(frozenset(sequence[:count]))
                values[part] += (after - before) / (2 * orders)
                before = after
    return values
