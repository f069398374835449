"""Factors and selections that are applied to advantages once they are assigned.

Legend: B trajectories of an update, G members of a group. Credit nests group > trajectory > (T,).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from rl.methods.estimators import statistics
from rl.methods.estimators.shapes import expect_shapes
from rl.methods.estimators.statistics import Bools, Floats, Ints
from rl.methods.estimators.turn_table import TokenAdvantages


def multiply(credit: TokenAdvantages, factor: Floats, *, negative_only: bool = False) -> TokenAdvantages:
    """`credit` with each trajectory's advantages times its `factor` (B,); with `negative_only` only those below 0."""
    remaining = iter(factor.tolist())
    result = []
    for of_group in credit:
        row = []
        for tokens in of_group:
            scale = next(remaining)
            row.append(np.where(tokens < 0, tokens * scale, tokens) if negative_only else tokens * scale)
        result.append(row)
    return result


def error_factor(shift: Floats, *, alpha: float, gate: str = "softplus", cap: float = 5.0) -> Floats:
    """ACE's factor (B,) of a negative advantage for the shift (B,) of log-probability: `1 + alpha * min(gate, cap)`."""
    value = np.logaddexp(0.0, shift) if gate == "softplus" else np.maximum(shift, 0.0)
    return 1 + alpha * np.minimum(value, cap)


def rarity(labels: Sequence[Hashable], in_scope: Bools, *, alpha: float, normalised: bool) -> Floats:
    """Weights (G,) `f^-alpha` of the members in scope, `f` members of the group with the same label; 1 for others.

    `normalised` divides by the mean weight of those in scope.
    """
    sizes = np.array([labels.count(label) for label in labels], dtype=np.float64)
    weight = sizes**-alpha
    if normalised and in_scope.any():
        weight = weight / weight[in_scope].mean()
    return np.where(in_scope, weight, 1.0)


def sharpen(
    credit: TokenAdvantages, likelihood: Floats, group: Ints, success: Bools, *, bonus: float, cap: float
) -> TokenAdvantages:
    """XRPO's bonus on the advantages of successes, for their mean log-probability `likelihood` (B,) in `group` (B,)."""
    expect_shapes(likelihood=(likelihood, "B"), group=(group, "B"), success=(success, "B"))
    novelty = np.exp(likelihood - statistics.group_mean(likelihood, group))
    gain = np.where(success, np.maximum(bonus * (1 - novelty), 0.0), 0.0)
    remaining = iter(gain.tolist())
    return [
        [tokens + np.minimum(next(remaining), cap * np.maximum(tokens, 0.0)) for tokens in of_group]
        for of_group in credit
    ]


def largest(values: Floats, share: float) -> np.ndarray:
    """Which of `values` (N,) are among the largest `share`, rounded down, one at least; of equal ones the first."""
    count = max(1, int(share * len(values) + 1e-9)) if len(values) else 0
    mask = np.zeros(len(values), dtype=np.bool_)
    mask[np.argsort(-values, kind="stable")[:count]] = True
    return mask


def most_spread(advantages: Floats, count: int) -> Bools:
    """The `count` of B advantages with the largest variance, as a mask (B,): some smallest and some largest ones."""
    order = np.argsort(advantages, kind="stable")
    size = len(order)
    if count >= size:
        return np.ones(size, dtype=np.bool_)
    choices = [np.concatenate([order[: count - top], order[size - top :]]) for top in range(count + 1)]
    variances = [float(np.var(advantages[choice])) for choice in choices]
    mask = np.zeros(size, dtype=np.bool_)
    mask[choices[int(np.argmax(variances))]] = True
    return mask


def contrasting_pairs(advantages: Floats, share: float) -> Bools:
    """The `share` of pairs of G members, largest with smallest and so on inwards, that differ most: a mask (G,)."""
    order = np.argsort(advantages, kind="stable")
    num_pairs = len(order) // 2
    mask = np.zeros(len(order), dtype=np.bool_)
    kept_pairs = max(1, round(share * num_pairs)) if num_pairs else 0
    mask[order[:kept_pairs]] = True
    mask[order[len(order) - kept_pairs :]] = kept_pairs > 0
    return mask
