"""Trajectories that share their first turns, as a tree: who shares what, and the advantages that follow from it.

A node is a turn together with all turns before it. Turns lie in order, trajectory by trajectory: R rows of N
trajectories, each row one visit to a node.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from rl.parts import statistics
from rl.parts.statistics import Floats, Ints
from rl.records import Group

NO_NODE = -1


def nodes(groups: Sequence[Group]) -> tuple[Ints, Ints]:
    """The node of each turn (R,) and the one it follows (R,), equal for members of a group with the same tokens so far.

    The first turns of a group follow a node of their own, numbered below 0.
    """
    known: dict[tuple[int, tuple[int, ...], tuple[int, ...]], int] = {}
    node, parent = [], []
    for number, group in enumerate(groups):
        for trajectory in group.trajectories:
            at = NO_NODE - number
            for turn in trajectory.turns:
                parent.append(at)
                at = known.setdefault((at, turn.context, turn.completion.ids), len(known))
                node.append(at)
    return np.array(node, dtype=np.int64), np.array(parent, dtype=np.int64)


def shared(advantages: Floats, node: Ints) -> Floats:
    """ARPO's hard attribution (R,): the mean of the trajectories' advantages (R,) over all that pass a node."""
    return statistics.group_mean(advantages, node)


def node_rewards(outcomes: Floats, node: Ints, left: Ints, formats: Floats, *, gamma: float) -> Floats:
    """PORTool's reward of a node (R,): its leaves' mean of `gamma^left * outcome`, plus what its own form earned.

    `outcomes` (R,) are of the trajectory, `left` (R,) counts its turns after this one.
    """
    return statistics.group_mean(gamma**left * outcomes, node) + formats


def among_siblings(rewards: Floats, node: Ints, parent: Ints, *, eps: float = 1e-6) -> Floats:
    """PORTool's fork-relative advantage (R,): a node's reward, standardised among those that follow the same node.

    An only child, and siblings of equal rewards, have 0.
    """
    _, first, visit = np.unique(node, return_index=True, return_inverse=True)
    values, fork = rewards[first], parent[first]
    std = statistics.group_std(values, fork)
    deviation = values - statistics.group_mean(values, fork)
    return np.where(std > eps, deviation / (std + eps), 0.0)[visit]


def subtree_values(rewards: Floats, parent: Ints, *, kind: Literal["mean", "max", "min"] = "mean") -> Floats:
    """Tree-OPO's value of each prefix (n,): of the rewards below it in the tree, its own included.

    Each prefix has one completion; `parent` is the index of the prefix it extends, or -1.
    """
    below = np.eye(len(rewards), dtype=np.bool_)
    above = np.array(parent)
    while (above >= 0).any():
        held = np.nonzero(above >= 0)[0]
        below[above[held], held] = True
        above[held] = parent[above[held]]
    if kind == "mean":
        return below @ rewards / below.sum(1)
    worst = np.inf if kind == "min" else -np.inf
    return getattr(np.where(below, rewards, worst), kind)(axis=1)


def staged(rewards: Floats, values: Floats, *, alpha: float = 0.5) -> Floats:
    """Tree-OPO's heuristic (arXiv:2509.09284): rewards less `alpha` times their prefix's value, centred (n,)."""
    advantages = rewards - alpha * values
    return advantages - statistics.mean(advantages)


def ordered(rewards: Floats, pairs: Sequence[tuple[int, int]], *, margin: float = 0.0) -> Floats | None:
    """Tree-OPO's staged advantages (n,): the nearest to the centred rewards that keep the order of `pairs`.

    They sum to 0, have squares that sum to at most `n`, and `a_i + margin <= a_j` for each pair `(i, j)`. None when
    nothing satisfies that.
    """
    from scipy.optimize import minimize

    centred = rewards - statistics.mean(rewards)
    count = len(rewards)
    constraints: list[dict] = [
        {"type": "eq", "fun": lambda a: a.sum(), "jac": lambda a: np.ones(count)},
        {"type": "ineq", "fun": lambda a: count - a @ a, "jac": lambda a: -2 * a},
    ]
    if len(pairs):
        order = np.zeros((len(pairs), count))
        order[np.arange(len(pairs)), [i for i, _ in pairs]] = -1.0
        order[np.arange(len(pairs)), [j for _, j in pairs]] = 1.0
        constraints.append({"type": "ineq", "fun": lambda a: order @ a - margin, "jac": lambda a: order})
    found = minimize(
        lambda a: 0.5 * ((a - centred) ** 2).sum(),
        centred,
        jac=lambda a: a - centred,
        constraints=constraints,
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-14},
    )
    return found.x if found.success else None
