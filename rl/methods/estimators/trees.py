"""Trajectories that share their first turns, as a tree: who shares what, and the advantages that follow from it.

A node is a turn together with all turns before it. Turns lie in order, trajectory by trajectory: R rows of N
trajectories, each row one visit to a node.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import permutations
from typing import Literal

import numpy as np

from rl.methods.estimators import statistics
from rl.methods.estimators.statistics import Bools, Floats, Ints
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


def drawn(groups: Sequence[Group]) -> Ints:
    """Which draw each turn is of (R,): equal where forks share a turn, sampled once, and never by chance."""
    known: dict[tuple[int, int, int], int] = {}
    found = []
    for number, group in enumerate(groups):
        sampled_in = _sampled_in(group)
        for i, trajectory in enumerate(group.trajectories):
            places = range(len(trajectory.turns))
            found += [known.setdefault((number, sampled_in(i, place), place), len(known)) for place in places]
    return np.array(found, dtype=np.int64)


def grown_from(groups: Sequence[Group]) -> Ints:
    """The tree of each trajectory (N,): equal for all that were forked from one, and from each other."""
    known: dict[tuple[int, int], int] = {}
    found = []
    for number, group in enumerate(groups):
        sampled_in = _sampled_in(group)
        roots = [sampled_in(i, -1) for i in range(len(group.trajectories))]
        found += [known.setdefault((number, root), len(known)) for root in roots]
    return np.array(found, dtype=np.int64)


def _sampled_in(group: Group) -> Callable[[int, int], int]:
    """Of a trajectory's number and a turn's place, the number of the one that had it first; of all turns for place -1.

    Members that failed count too, behind the others: what was forked from them may have ended well.
    """
    members = [*group.trajectories, *group.errored]
    number = {member.member: i for i, member in reversed([*enumerate(members)])}

    def sampled_in(i: int, place: int) -> int:
        while (fork := members[i].fork) is not None and place < fork.turns and fork.member in number:
            i = number[fork.member]
        return i

    return sampled_in


def fork_score(u: float, first: float, now: float, *, weight: float) -> float:
    """ARPO's score of a draw `u`: a branch forks where it is at most the chance of one without a rise in entropy."""
    return min(max(u - weight * (now - first), 0.0), 1.0)


def subtrees(parent: Ints) -> Bools:
    """Which prefixes (n, n) lie in whose subtree, its own root included; `parent` is the one extended, or -1."""
    below = np.eye(len(parent), dtype=np.bool_)
    above = np.array(parent)
    while (above >= 0).any():
        held = np.nonzero(above >= 0)[0]
        below[above[held], held] = True
        above[held] = parent[above[held]]
    return below


def prefixes(group: Group) -> Bools:
    """Which members' prefixes (n, n) lie in whose subtree: of the turns shared as a fork, those begin with these."""
    paths = [
        tuple((turn.context, turn.completion.ids) for turn in t.turns[: t.fork.turns if t.fork else 0])
        for t in group.trajectories
    ]
    return np.array([[path[: len(other)] == other for path in paths] for other in paths], dtype=np.bool_)


def subtree_values(rewards: Floats, below: Bools, *, kind: Literal["mean", "max", "min"] = "mean") -> Floats:
    """Tree-OPO's value of each prefix (n,): of the rewards of all completions `below` (n, n) it, its own included."""
    if kind == "mean":
        anchor = rewards[:1]  # equal rewards then deviate by exactly 0
        return anchor + below @ (rewards - anchor) / below.sum(1)
    worst = np.inf if kind == "min" else -np.inf
    return getattr(np.where(below, rewards, worst), kind)(axis=1)


def order(success: Bools, below: Bools) -> list[tuple[int, int]]:
    """Tree-OPO's pairs `(i, j)` of which `j` shall earn more, by who succeeded (n,) and who is `below` whom (n, n).

    A success earns more than the failure of a prefix that its own extends. Of two failures whose prefixes extend the
    same one, the one with a success below its prefix earns less: from there it could be done.
    """
    extends = below & ~below.T
    solvable: Bools = np.any(below & success, axis=1)
    pairs = []
    for i, j in permutations(range(len(success)), 2):
        beside = np.array_equal(extends[:, i], extends[:, j])
        saved = extends[i, j] and success[j]
        wasted = beside and solvable[i] and not solvable[j]
        if not success[i] and (saved or (wasted and not success[j])):
            pairs.append((i, j))
    return pairs


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
