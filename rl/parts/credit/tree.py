"""Credit from members of a group that share their first turns, sampled as a tree or alike by chance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from rl.options import NonNegative, Share
from rl.parts import trees, turns
from rl.parts.turns import Credit
from rl.records import Group

if TYPE_CHECKING:
    from rl.recipe import Recipe


def shared_prefix(groups: Sequence[Group], recipe: Recipe) -> Credit:
    """ARPO's hard attribution (arXiv:2507.19849): a turn that several members share earns the mean of their advantages.

    Its soft form is `outcome`: on shared tokens the ratios agree, so that gradients average by themselves.
    """
    played = turns.read(groups)
    node, _ = trees.nodes(groups)
    own = turns.per_trajectory(played, recipe)[played.trajectory]
    return turns.on_tokens(groups, played, trees.shared(own, node))


def forked(
    groups: Sequence[Group],
    recipe: Recipe,
    *,
    gamma: Share = 0.9,
    fork: NonNegative = 1.0,
    trajectory: NonNegative = 1.0,
    valid: NonNegative = 0.0,
) -> Credit:
    """PORTool (arXiv:2510.26020): a turn's advantage among the turns forked at the same place, plus its trajectory's.

    A turn is worth the mean, over the members that share it, of the final reward discounted by `gamma` per turn still
    to come, and `valid` more where its reply was. `fork` and `trajectory` weigh the two.
    """
    played = turns.read(groups)
    node, parent = trees.nodes(groups)
    left = played.counts[played.trajectory] - 1 - played.index
    formats = valid * np.array([turn.valid for turn in turns.turns_of(groups)], dtype=np.float64)
    worth = trees.node_rewards(played.returns[played.trajectory], node, left, formats, gamma=gamma)
    own = turns.per_trajectory(played, recipe)[played.trajectory]
    earned = fork * trees.among_siblings(worth, node, parent) + trajectory * own
    return turns.on_tokens(groups, played, earned)
