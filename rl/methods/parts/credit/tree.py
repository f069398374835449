"""Credit from members of a group that share their first turns, as forks or by chance.

Legend: B trajectories, R turns, G members of one group.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from rl.methods.estimators import statistics, trees, turn_table
from rl.methods.estimators.statistics import Floats
from rl.methods.estimators.tasks import branches
from rl.methods.estimators.turn_table import TokenAdvantages
from rl.methods.options import NonNegative, Share
from rl.records import Group

if TYPE_CHECKING:
    from rl.methods.inputs import Normalization


def shared_prefix(groups: Sequence[Group], norm: Normalization, *, once: bool = False) -> TokenAdvantages:
    """ARPO's hard attribution (arXiv:2507.19849): a turn that members share has the mean of their advantages.

    Its soft form is `outcome`: on shared tokens the ratios agree, so that gradients average by themselves. With `once`,
    a turn that forks share weighs as one turn rather than as one per member: late turns then count for more.
    """
    table = turn_table.from_groups(groups)
    node, _ = trees.nodes(groups)
    own = turn_table.trajectory_advantages(table, norm)[table.trajectory]
    return turn_table.turns_to_tokens(groups, table, _weigh_draws(trees.node_mean(own, node), groups, once))


def forked(
    groups: Sequence[Group],
    norm: Normalization,
    *,
    gamma: Share = 0.9,
    fork: NonNegative = 1.0,
    trajectory: NonNegative = 1.0,
    valid: NonNegative = 0.0,
    once: bool = False,
) -> TokenAdvantages:
    """PORTool (arXiv:2510.26020): a turn's advantage among the turns forked at the same place, plus its trajectory's.

    A turn is worth the mean, over the members that share it, of the final reward discounted by `gamma` per turn that
    follows, and `valid` more if its reply was valid. `fork` and `trajectory` weigh the two advantages. With `once`, a
    turn that forks share weighs as one turn, and its trajectories' advantages as their mean.
    """
    table = turn_table.from_groups(groups)
    node, parent = trees.nodes(groups)
    remaining = table.num_turns[table.trajectory] - 1 - table.index
    formats = valid * np.array([turn.valid for turn in turn_table.turns_of(groups)], dtype=np.float64)
    values = trees.node_rewards(table.returns[table.trajectory], node, remaining, formats, gamma=gamma)
    own = turn_table.trajectory_advantages(table, norm)[table.trajectory]
    advantages = fork * trees.among_siblings(values, node, parent) + trajectory * own
    return turn_table.turns_to_tokens(groups, table, _weigh_draws(advantages, groups, once))


def within_trees(
    groups: Sequence[Group], norm: Normalization, *, tree: NonNegative = 1.0, group: NonNegative = 1.0
) -> TokenAdvantages:
    """Tree-GRPO (arXiv:2509.21240): a trajectory's advantage in its tree, plus the one in its whole group.

    A tree is a member and all that were forked from it. `tree` and `group` weigh the two advantages. A member that is
    no fork and has none is a tree of one: its first advantage is 0.
    """
    table = turn_table.from_groups(groups)
    in_tree = turn_table.compare(table.returns, trees.tree_ids(groups), table.lengths, norm)
    advantages = tree * in_tree + group * turn_table.trajectory_advantages(table, norm)
    return turn_table.turns_to_tokens(groups, table, advantages[table.trajectory])


def depth_wise(
    groups: Sequence[Group], norm: Normalization, *, quantile: Share = 0.3, least: NonNegative = 1e-3
) -> TokenAdvantages:
    """BranchGRPO (arXiv:2509.06040) on turns: the advantage of a turn's node among all of its depth.

    The value of a node is the mean over its children, which weigh alike, and at the end of an episode its return; it
    is compared, by `norm`, with those of the same depth and group. An episode that has ended counts with its return at
    every later depth. Nothing is learned at depths whose values deviate by less than `least`, nor from turns whose
    |advantage| is below the `quantile` of their depth. A turn that forks share weighs as one turn.
    """
    table = turn_table.from_groups(groups)
    draw = trees.draws(groups)
    values = branches.fused(draw, table.index, table.trajectory, table.returns)
    advantages = branches.by_depth(
        values,
        draw,
        table.index,
        table.trajectory,
        table.group,
        table.num_tokens,
        lambda rewards, label, tokens: turn_table.compare(rewards, label, tokens, norm),
        quantile=quantile,
        least=least,
    )
    return turn_table.turns_to_tokens(groups, table, _weigh_draws(advantages, groups, True))


def value_steps(groups: Sequence[Group], norm: Normalization) -> TokenAdvantages:
    """What each turn adds to the value of its node, on each of the turn's tokens.

    A node is a turn together with all turns before it; its value is the mean return of the trajectories that pass it.
    The turn gets this value less that of its parent, which for a first turn is the mean of the group. These values are
    what a tree search estimates, as in MedS3 (arXiv:2501.12051). The advantages of a trajectory's turns add up to its
    return less the mean of its group, in units of `norm.scale`; `norm.baseline` is not read.
    """
    table = turn_table.from_groups(groups)
    node, parent = trees.nodes(groups)
    values = statistics.group_mean(table.returns[table.trajectory], node)
    group_means = statistics.group_mean(table.returns, table.group)[table.trajectory]
    before = np.where(parent < 0, group_means, np.concatenate([[0.0], values])[: len(values)])
    factors = turn_table.inverse_unit(table.returns, table.group, norm)
    return turn_table.turns_to_tokens(groups, table, (values - before) * factors[table.trajectory])


def chunk_labels(
    groups: Sequence[Group],
    norm: Normalization,
    *,
    mode: Literal["effective", "absolute", "tolerance", "ratio"] = "effective",
    threshold: NonNegative = 1.0,
    weight: NonNegative = 0.5,
) -> TokenAdvantages:
    """StepWiser's labels (arXiv:2508.19229) as rewards: a turn that is good by what its node leads to earns `weight`.

    `Q` of a node is the mean return of the members that pass it. A turn from `Q'` to `Q` is good if `Q > threshold`
    ("absolute"), `Q + threshold * (Q - Q') > 0` ("effective"), `Q >= Q' - threshold` ("tolerance") or
    `Q / Q' >= threshold` ("ratio"); where nothing succeeds it is not. Its label, less the mean label of the group's
    turns, is added to the trajectory's advantage.
    """
    table = turn_table.from_groups(groups)
    node, parent = trees.nodes(groups)
    values = statistics.group_mean(table.returns[table.trajectory], node)
    starts = statistics.group_mean(table.returns, table.group)[table.trajectory]
    before = np.where(parent < 0, starts, np.concatenate([[0.0], values])[: len(values)])
    labels = trees.chunk_labels(before, values, mode=mode, threshold=threshold).astype(np.float64)
    own = turn_table.trajectory_advantages(table, norm)[table.trajectory]
    deviation = labels - statistics.group_mean(labels, table.turn_group)
    return turn_table.turns_to_tokens(groups, table, own + weight * deviation)


def staged(
    groups: Sequence[Group],
    norm: Normalization,
    *,
    alpha: Share = 0.5,
    value: Literal["mean", "max", "min"] = "mean",
    ordered: bool = False,
    margin: NonNegative = 0.0,
) -> TokenAdvantages:
    """Tree-OPO (arXiv:2509.09284): returns of completions of different prefixes, on the turns after the prefix.

    A return is reduced by `alpha` times the value of its prefix: the `value` (mean, max or min) of the returns of all
    members that begin with it. With `ordered`, advantages are instead the nearest to the centred returns in which a
    success beats failures on its way by `margin`, where there are such. Neither baseline nor scale is read.
    """
    table = turn_table.from_groups(groups)
    per_group = [np.zeros(0)]
    for number, group in enumerate(groups):
        rewards, below = table.returns[table.group == number], trees.prefix_subtrees(group)
        if not len(rewards):
            continue
        advantages = None
        if ordered:
            success = np.array([trajectory.success for trajectory in group.trajectories], dtype=np.bool_)
            advantages = trees.staged_in_order(rewards, trees.order(success, below), margin=margin)
        if advantages is None:
            advantages = trees.staged(rewards, trees.subtree_values(rewards, below, kind=value), alpha=alpha)
        per_group.append(advantages)
    members = turn_table.trajectories(groups)
    prefix_turns = np.array([t.fork.turns if t.fork else 0 for t in members], dtype=np.int64)
    is_own = table.index >= prefix_turns[table.trajectory]
    return turn_table.turns_to_tokens(groups, table, np.concatenate(per_group)[table.trajectory] * is_own)


def _weigh_draws(advantages: Floats, groups: Sequence[Group], once: bool) -> Floats:
    """`advantages` (R,), or with `once` their mean over the turns of each draw, divided by how many these are."""
    if not once:
        return advantages
    draw = trees.draws(groups)
    return statistics.group_mean(advantages, draw) / statistics.group_size(draw)
