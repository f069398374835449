"""Values of a tree's nodes from the leaves upwards, and their advantages depth by depth.

Legend: R turns of all trajectories in order, B trajectories.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

import numpy as np

from rl.methods.estimators.shapes import expect_shapes
from rl.methods.estimators.statistics import Floats, Ints

Compare = Callable[[Floats, Ints, Ints], Floats]  # values, labels and numbers of tokens, one per node, to advantages


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
