"""Credit from several rewards, from roles, and from some of the trajectories only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from rl.methods.estimators import multi_reward, statistics, subsets, turn_table
from rl.methods.estimators.turn_table import Credit
from rl.methods.options import Count, Positive, Share
from rl.records import Group

if TYPE_CHECKING:
    from rl.methods.inputs import Normalization


def decoupled(
    groups: Sequence[Group], norm: Normalization, *, weights: str = "", eps: Positive = 1e-6, per_token: bool = False
) -> Credit:
    """GDPO (arXiv:2601.05242): each named reward gets its own advantage in the group; their sum is standardised.

    So a reward in which a group does not differ adds nothing, and none is drowned by another's unit. `weights` are
    written `correct:2+format:0.5`; others weigh 1. The last step is over all trajectories of the update, or over their
    tokens with `per_token`.
    """
    played = turn_table.read(groups)
    names, table = multi_reward.named(groups)
    compared = [turn_table.compared(column, played.group, played.lengths, norm) for column in table.T]
    total = multi_reward.weights(names, weights) @ np.array(compared)
    if per_token:
        earned = statistics.whiten(np.repeat(total, played.lengths))
    else:
        spread = np.sqrt(statistics.variance(total))
        centred = total - statistics.mean(total)
        earned = np.repeat(centred / (spread + eps) if spread > eps else np.zeros_like(total), played.lengths)
    return turn_table.nested(groups, played.lengths, earned)


def by_role(groups: Sequence[Group], norm: Normalization, *, per_episode: str = "") -> Credit:
    """Several agents in an episode: each one's reward against those of the same agent in the group.

    Agents named in `per_episode`, joined by `+`, play several times in each episode: theirs are compared within it.
    """
    played = turn_table.read(groups)
    members = list(turn_table.trajectories(groups))
    agents = [member.agent for member in members]
    episode = [member.member if member.agent in per_episode.split("+") else -1 for member in members]
    key = turn_table.labels(played.group, agents, np.array(episode, dtype=np.int64))
    earned = turn_table.compared(played.returns, key, played.lengths, norm)
    return turn_table.nested(groups, played.lengths, np.repeat(earned, played.lengths))


def most_varied(groups: Sequence[Group], norm: Normalization, *, ratio: Share = 0.25, lowest: bool = False) -> Credit:
    """StarPO-S (arXiv:2504.20073): `outcome`, but only for the share `ratio` of groups whose task rewards vary most.

    The others earn 0 and stay in the loss's denominator; one group is always left. `lowest` takes the least varied.
    """
    played = turn_table.read(groups)
    task = np.array([trajectory.reward for trajectory in turn_table.trajectories(groups)], dtype=np.float64)
    kept = subsets.most_varied(task, played.group, ratio=ratio, lowest=lowest, least=1)
    earned = np.where(kept, turn_table.per_trajectory(played, norm), 0.0)
    return turn_table.nested(groups, played.lengths, np.repeat(earned, played.lengths))


def resampled_on_correct(
    groups: Sequence[Group], norm: Normalization, *, keep: Share = 0.5, least: Count = 2
) -> Credit:
    """GRPO-RoC (arXiv:2508.20722): `outcome` over the share `keep` of a group, of the successes only the cleanest.

    A trajectory's penalty is the share of its replies that were not valid. Those not kept earn 0 and stand in no
    statistic; play twice as many as are to be trained on.
    """
    played = turn_table.read(groups)
    turn_valid = np.array([turn.valid for turn in turn_table.turns_of(groups)], dtype=np.float64)
    invalid = np.zeros(len(played.returns))
    np.add.at(invalid, played.trajectory, 1 - turn_valid)
    penalty = subsets.error_share(invalid, played.counts.astype(np.float64))
    kept = np.zeros(len(played.returns), dtype=np.bool_)
    for number in range(len(groups)):
        rows = np.nonzero(played.group == number)[0]
        count = max(1, round(keep * len(rows)))
        kept[rows] = subsets.resampled_on_correct(played.returns[rows], penalty[rows], keep=count, least=least)
    earned = np.zeros(len(kept))
    earned[kept] = turn_table.compared(played.returns[kept], played.group[kept], played.lengths[kept], norm)
    return turn_table.nested(groups, played.lengths, np.repeat(earned, played.lengths))
