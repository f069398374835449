"""Trajectories that share their first turns, as a tree: who shares what, and the advantages that follow from it.

A node is a turn together with all turns before it.

Legend: B trajectories, R turns of all of them in order (each one visit to a node), G members of one group.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import permutations
from typing import Literal

import numpy as np

from rl.methods.estimators import statistics
from rl.methods.estimators.shapes import expect_shapes
from rl.methods.estimators.statistics import Bools, Floats, Ints
from rl.records import Group, Turn

NO_NODE = -1
Compare = Callable[[Floats, Ints, Ints], Floats]  # values, labels and numbers of tokens, one per node, to advantages


def nodes(groups: Sequence[Group]) -> tuple[Ints, Ints]:
    """The node of each turn (R,) and its parent (R,): a node is a turn together with all turns before it.

    Nodes are numbered from 0, equal for members of a group with the same tokens so far. The first turns of a group have
    a parent of their own, numbered below 0.
    """
    node_ids: dict[tuple, int] = {}
    node, parent = [], []
    for number, group in enumerate(groups):
        for trajectory in group.trajectories:
            current = NO_NODE - number
            for turn in trajectory.turns:
                parent.append(current)
                current = node_ids.setdefault((current, *_tokens(turn)), len(node_ids))
                node.append(current)
    return np.array(node, dtype=np.int64), np.array(parent, dtype=np.int64)


def _tokens(turn: Turn) -> tuple:
    """All that a turn's node depends on."""
    return turn.context, turn.images, turn.completion.ids


def node_mean(advantages: Floats, node: Ints) -> Floats:
    """ARPO's hard attribution: each turn gets the mean of `advantages` over all turns with the same `node`.

    `advantages` (R,) repeats a trajectory's advantage on each of its turns; `node` (R,) numbers the history that ends
    with the turn, as `nodes` returns it.
    """
    return statistics.group_mean(advantages, node)


def node_rewards(outcomes: Floats, node: Ints, remaining: Ints, formats: Floats, *, gamma: float) -> Floats:
    """PORTool's reward of each turn's node (R,): the mean of `gamma^remaining * outcome` of its leaves, plus `formats`.

    Args:
        outcomes: The outcome (R,) of the turn's trajectory.
        node: The turn's node (R,).
        remaining: How many turns (R,) follow this one in its trajectory.
        formats: The reward (R,) of the turn's own form.
        gamma: The discount per turn.
    """
    expect_shapes(outcomes=(outcomes, "R"), node=(node, "R"), remaining=(remaining, "R"), formats=(formats, "R"))
    return statistics.group_mean(gamma**remaining * outcomes, node) + formats


def among_siblings(rewards: Floats, node: Ints, parent: Ints, *, eps: float = 1e-6) -> Floats:
    """PORTool's fork-relative advantage (R,): a node's reward, standardised among the nodes with the same `parent`.

    `rewards`, `node` and `parent` are (R,), one entry per turn; a node is a turn together with all turns before it
    (`nodes`). An only child, and siblings of equal rewards, have 0.
    """
    expect_shapes(rewards=(rewards, "R"), node=(node, "R"), parent=(parent, "R"))
    _, first, visit = np.unique(node, return_index=True, return_inverse=True)
    values, fork = rewards[first], parent[first]
    std = statistics.group_std(values, fork)
    deviation = values - statistics.group_mean(values, fork)
    return np.where(std > eps, deviation / (std + eps), 0.0)[visit]


def chunk_labels(before: Floats, after: Floats, *, mode: str, threshold: float) -> Bools:
    """StepWiser's label (R,) of each turn by the rates of success `before` and `after` it (R,)."""
    expect_shapes(before=(before, "R"), after=(after, "R"))
    change = after - before
    good = {
        "absolute": after > threshold,
        "effective": after + threshold * change > 0,
        "tolerance": change >= -threshold - 1e-12,
        "ratio": (after > 0) & (after >= threshold * before),
    }[mode]
    return good & ((after > 0) | (before > 0)) if mode == "tolerance" else good


def draws(groups: Sequence[Group]) -> Ints:
    """Number the draw that sampled each turn (R,): equal where forks share a turn, not for turns alike by chance."""
    draw_ids: dict[tuple[int, int, int], int] = {}
    draw = []
    for number, group in enumerate(groups):
        source_of = _source_of(group)
        for i, trajectory in enumerate(group.trajectories):
            places = range(len(trajectory.turns))
            draw += [draw_ids.setdefault((number, source_of(i, place), place), len(draw_ids)) for place in places]
    return np.array(draw, dtype=np.int64)


def tree_ids(groups: Sequence[Group]) -> Ints:
    """Number the tree of each trajectory (B,): equal for all that were forked from one, and for that one."""
    ids: dict[tuple[int, int], int] = {}
    tree = []
    for number, group in enumerate(groups):
        source_of = _source_of(group)
        roots = [source_of(i, -1) for i in range(len(group.trajectories))]
        tree += [ids.setdefault((number, root), len(ids)) for root in roots]
    return np.array(tree, dtype=np.int64)


def _source_of(group: Group) -> Callable[[int, int], int]:
    """A function of a trajectory's number and a turn's place: the number of the trajectory that sampled that turn.

    Place -1 asks for the root of the trajectory's tree. Members that failed are numbered behind the others: what was
    forked from them may have ended well.
    """
    members = [*group.trajectories, *group.errored]
    number = {member.member: i for i, member in reversed([*enumerate(members)])}

    def source_of(i: int, place: int) -> int:
        while (fork := members[i].fork) is not None and place < fork.turns and fork.member in number:
            i = number[fork.member]
        return i

    return source_of


def fork_score(u: float, first: float, now: float, *, weight: float) -> float:
    """ARPO's score of a uniform draw `u` in [0, 1): `u - weight * (now - first)`, held within 0 and 1.

    `first` and `now` are entropies of replies in nats per token. A branch forks where its score is at most the chance
    of a fork without a rise in entropy.
    """
    return min(max(u - weight * (now - first), 0.0), 1.0)


def prefix_subtrees(group: Group) -> Bools:
    """(G, G), True at `[i, j]` where member `j`'s prefix lies in the subtree of member `i`'s, its root included.

    A member's prefix is what it shares as a fork: its first `fork.turns` turns. One prefix lies in the subtree of
    another if it begins with it.
    """
    paths = [tuple(_tokens(turn) for turn in t.turns[: t.fork.turns if t.fork else 0]) for t in group.trajectories]
    return np.array([[path[: len(other)] == other for path in paths] for other in paths], dtype=np.bool_)


def subtree_values(rewards: Floats, below: Bools, *, kind: Literal["mean", "max", "min"] = "mean") -> Floats:
    """Tree-OPO's value of each prefix (G,): the mean, max or min of all `rewards` (G,) below it, its own included.

    `below` (G, G) is as `prefix_subtrees` gives it.
    """
    expect_shapes(rewards=(rewards, "G"), below=(below, "GG"))
    if kind == "mean":
        anchor = rewards[:1]  # equal rewards then deviate by exactly 0
        return anchor + below @ (rewards - anchor) / below.sum(1)
    worst = np.inf if kind == "min" else -np.inf
    return getattr(np.where(below, rewards, worst), kind)(axis=1)


def order(success: Bools, below: Bools) -> list[tuple[int, int]]:
    """Tree-OPO's pairs `(i, j)` of members of which `j` must have the greater advantage.

    A success must have more than the failure of a prefix that its own extends. Of two failures whose prefixes extend
    the same one, the one with a success below its prefix must have less: it could still have succeeded. `success` is
    (G,), `below` (G, G) as `prefix_subtrees` gives it.
    """
    expect_shapes(success=(success, "G"), below=(below, "GG"))
    extends = below & ~below.T
    is_solvable: Bools = np.any(below & success, axis=1)
    pairs = []
    for i, j in permutations(range(len(success)), 2):
        same_parent = np.array_equal(extends[:, i], extends[:, j])
        success_below = extends[i, j] and success[j]
        missed_success = same_parent and is_solvable[i] and not is_solvable[j]
        if not success[i] and (success_below or (missed_success and not success[j])):
            pairs.append((i, j))
    return pairs


def staged(rewards: Floats, values: Floats, *, alpha: float = 0.5) -> Floats:
    """Tree-OPO's heuristic (arXiv:2509.09284): rewards (G,) less `alpha` times their prefix's value (G,), centred."""
    expect_shapes(rewards=(rewards, "G"), values=(values, "G"))
    advantages = rewards - alpha * values
    return advantages - statistics.mean(advantages)


def staged_in_order(rewards: Floats, pairs: Sequence[tuple[int, int]], *, margin: float = 0.0) -> Floats | None:
    """Tree-OPO's staged advantages (G,): the nearest to the centred rewards (G,) that keep the order of `pairs`.

    They sum to 0, their squares sum to at most `G`, and `a_i + margin <= a_j` for each pair `(i, j)`. None when nothing
    satisfies that.
    """
    from scipy.optimize import minimize

    centre = rewards - statistics.mean(rewards)
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
    result = minimize(
        lambda a: 0.5 * ((a - centre) ** 2).sum(),
        centre,
        jac=lambda a: a - centre,
        constraints=constraints,
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-14},
    )
    return result.x if result.success else None


def fused(draw: Ints, index: Ints, trajectory: Ints, returns: Floats) -> Floats:
    """The value (R,) of each turn's node: of a last turn the trajectory's return, else the mean of its children's.

    `draw` (R,) numbers nodes, equal for turns that forks share; `index` (R,) is a turn's place in its trajectory,
    `trajectory` (R,) its trajectory, and `returns` (B,) are those of trajectories. Children weigh alike, however many
    leaves are below them.
    """
    expect_shapes(draw=(draw, "R"), index=(index, "R"), trajectory=(trajectory, "R"), returns=(returns, "B"))
    last: dict[int, int] = {int(t): r for r, t in enumerate(trajectory)}
    children: dict[int, dict[int, None]] = defaultdict(dict)
    value: dict[int, float] = {int(draw[r]): float(returns[t]) for t, r in last.items()}
    for r in range(1, len(draw)):
        if trajectory[r] == trajectory[r - 1]:
            children[int(draw[r - 1])][int(draw[r])] = None
    for r in np.argsort(-index, kind="stable").tolist():
        if below := children.get(int(draw[r])):
            value[int(draw[r])] = float(np.mean([value[child] for child in below]))
    return np.array([value[int(node)] for node in draw], dtype=np.float64)


def by_depth(
    values: Floats,
    draw: Ints,
    index: Ints,
    trajectory: Ints,
    group: Ints,
    tokens: Ints,
    compare: Compare,
    *,
    quantile: float,
    least: float,
) -> Floats:
    """Advantages (R,) of nodes among those of their depth and group, each counted once.

    A trajectory that has ended counts at all later depths with its value: else a turn would only be compared with those
    that went on as well, and whether to go on would have no price. Depths whose values deviate by less than `least`
    have 0, and so have nodes whose |advantage| is below the `quantile` of their depth. `group` (B,) labels
    trajectories, `tokens` (R,) counts a turn's; the other arguments are as `fused` takes and returns them.
    """
    num_turns = np.bincount(trajectory, minlength=len(group))
    deepest = np.zeros(int(group.max(initial=-1)) + 1, dtype=np.int64)
    np.maximum.at(deepest, group, num_turns)
    nodes: dict[int, int] = {}
    for r, node in enumerate(draw.tolist()):
        nodes.setdefault(node, r)
    rows = list(nodes.values())
    last_rows = np.flatnonzero(np.append(trajectory[1:] != trajectory[:-1], len(trajectory) > 0))
    late = [(int(r), d) for r in last_rows for d in range(int(index[r]) + 1, int(deepest[group[trajectory[r]]]))]
    at = np.array([*rows, *(r for r, _ in late)], dtype=np.int64)
    depth = np.array([*index[rows], *(d for _, d in late)], dtype=np.int64)
    _, label = np.unique(np.stack([group[trajectory[at]], depth]), axis=1, return_inverse=True)
    label = label.reshape(-1)
    advantages = compare(values[at], label, np.where(np.arange(len(at)) < len(rows), tokens[at], 1))
    own = np.zeros(len(rows))
    for one in np.unique(label):
        members = np.flatnonzero(label == one)
        edges = members[members < len(rows)]
        if len(edges) and np.std(values[at[members]]) >= least:
            size = np.abs(advantages[edges])
            own[edges] = np.where(size < np.quantile(size, quantile) - 1e-12, 0.0, advantages[edges])
    place = {node: i for i, node in enumerate(nodes)}
    return np.array([own[place[int(node)]] for node in draw], dtype=np.float64)
