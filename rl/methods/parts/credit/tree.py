"""Credit from members of a group that share their first turns, sampled as a tree or alike by chance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from rl.methods.estimators import statistics, trees, turn_table
from rl.methods.estimators.statistics import Floats
from rl.methods.estimators.turn_table import Credit
from rl.methods.options import NonNegative, Share
from rl.records import Group

if TYPE_CHECKING:
    from rl.methods.inputs import Normalization


def shared_prefix(groups: Sequence[Group], norm: Normalization, *, once: bool = False) -> Credit:
    """ARPO's hard attribution (arXiv:2507.19849): a turn that several members share earns the mean of their advantages.

    Its soft form is `outcome`: on shared tokens the ratios agree, so that gradients average by themselves. With `once`,
    a turn that forks share weighs as one turn rather than as one per member: late turns then count for more.
    """
    played = turn_table.read(groups)
    node, _ = trees.nodes(groups)
    own = turn_table.per_trajectory(played, norm)[played.trajectory]
    return turn_table.on_tokens(groups, played, _weighed(trees.shared(own, node), groups, once))


def forked(
    groups: Sequence[Group],
    norm: Normalization,
    *,
    gamma: Share = 0.9,
    fork: NonNegative = 1.0,
    trajectory: NonNegative = 1.0,
    valid: NonNegative = 0.0,
    once: bool = False,
) -> Credit:
    """PORTool (arXiv:2510.26020): a turn's advantage among the turns forked at the same place, plus its trajectory's.

    A turn is worth the mean, over the members that share it, of the final reward discounted by `gamma` per turn still
    to come, and `valid` more where its reply was. `fork` and `trajectory` weigh the two. With `once`, a turn that forks
    share weighs as one turn, and its trajectories' advantages as their mean.
    """
    played = turn_table.read(groups)
    node, parent = trees.nodes(groups)
    left = played.counts[played.trajectory] - 1 - played.index
    formats = valid * np.array([turn.valid for turn in turn_table.turns_of(groups)], dtype=np.float64)
    worth = trees.node_rewards(played.returns[played.trajectory], node, left, formats, gamma=gamma)
    own = turn_table.per_trajectory(played, norm)[played.trajectory]
    earned = fork * trees.among_siblings(worth, node, parent) + trajectory * own
    return turn_table.on_tokens(groups, played, _weighed(earned, groups, once))


def within_trees(
    groups: Sequence[Group], norm: Normalization, *, tree: NonNegative = 1.0, group: NonNegative = 1.0
) -> Credit:
    """Tree-GRPO (arXiv:2509.21240): a trajectory's advantage in its tree, plus the one in its whole group.

    `tree` and `group` weigh the two. Members that are no forks are trees of one, and earn nothing in those.
    """
    played = turn_table.read(groups)
    inside = turn_table.compared(played.returns, trees.grown_from(groups), played.lengths, norm)
    earned = tree * inside + group * turn_table.per_trajectory(played, norm)
    return turn_table.on_tokens(groups, played, earned[played.trajectory])


def value_steps(groups: Sequence[Group], norm: Normalization) -> Credit:
    """What each turn adds to the value of its place: the mean return of all that begin with it, less that before it.

    The values are those that a tree search estimates, as in MedS3 (arXiv:2501.12051). What the turns of a trajectory
    earn adds up to its return less the mean of its group, in units of `norm.scale`; the baseline is not read.
    """
    played = turn_table.read(groups)
    node, parent = trees.nodes(groups)
    worth = statistics.group_mean(played.returns[played.trajectory], node)
    mean = statistics.group_mean(played.returns, played.group)[played.trajectory]
    before = np.where(parent < 0, mean, np.concatenate([[0.0], worth])[: len(worth)])
    unit = turn_table.unit(played.returns, played.group, norm)
    return turn_table.on_tokens(groups, played, (worth - before) * unit[played.trajectory])


def staged(
    groups: Sequence[Group],
    norm: Normalization,
    *,
    alpha: Share = 0.5,
    value: Literal["mean", "max", "min"] = "mean",
    ordered: bool = False,
    margin: NonNegative = 0.0,
) -> Credit:
    """Tree-OPO (arXiv:2509.09284): returns of completions of different prefixes, on the turns that are not prefix.

    A return is reduced by `alpha` times the value of its prefix: `value` of the returns of all that begin like it. With
    `ordered` advantages are instead the nearest to the centred returns in which a success beats failures on its way by
    `margin`, where there are such. Neither baseline nor scale is read.
    """
    played = turn_table.read(groups)
    earned: list[np.ndarray] = []
    for number, group in enumerate(groups):
        rewards, below = played.returns[played.group == number], trees.prefixes(group)
        success = np.array([trajectory.success for trajectory in group.trajectories], dtype=np.bool_)
        found = trees.ordered(rewards, trees.order(success, below), margin=margin) if ordered and len(rewards) else None
        if found is None and len(rewards):
            found = trees.staged(rewards, trees.subtree_values(rewards, below, kind=value), alpha=alpha)
        earned.append(np.zeros(0) if found is None else found)
    copied = np.array([t.fork.turns if t.fork else 0 for t in turn_table.trajectories(groups)], dtype=np.int64)
    own = played.index >= copied[played.trajectory]
    return turn_table.on_tokens(groups, played, np.concatenate(earned)[played.trajectory] * own)


def _weighed(earned: Floats, groups: Sequence[Group], once: bool) -> Floats:
    """Over all rows that hold a draw, the credit (R,) of one of them if `once`."""
    if not once:
        return earned
    draw = trees.drawn(groups)
    return statistics.group_mean(earned, draw) / statistics.group_size(draw)
