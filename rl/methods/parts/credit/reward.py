"""Credit from several rewards, from roles, and from some of the trajectories only.

Legend: B trajectories, R turns, M sampled tokens, J named rewards.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from rl.methods.estimators import multi_reward, statistics, subsets, turn_table
from rl.methods.estimators.statistics import Floats
from rl.methods.estimators.turn_table import TokenAdvantages, TurnTable
from rl.methods.options import Count, Positive, Share
from rl.records import Group

if TYPE_CHECKING:
    from rl.methods.inputs import Normalization


def decoupled(
    groups: Sequence[Group], norm: Normalization, *, weights: str = "", eps: Positive = 1e-6, per_token: bool = False
) -> TokenAdvantages:
    """GDPO (arXiv:2601.05242): each named reward gets its own advantage in the group; their sum is standardised.

    So a reward in which a group does not differ adds nothing, and none is drowned by another's unit. `weights` are
    written `correct:2+format:0.5`; others weigh 1. The sum is standardised over all trajectories of the update (with
    `eps` added to their deviation), or over their tokens with `per_token`.
    """
    table = turn_table.from_groups(groups)
    names, rewards = multi_reward.reward_table(groups)
    per_reward = [turn_table.compare(column, table.group, table.lengths, norm) for column in rewards.T]  # J of (B,)
    total = multi_reward.parse_weights(names, weights) @ np.array(per_reward)
    if per_token:
        advantages = statistics.whiten(np.repeat(total, table.lengths))
        return turn_table.nest(groups, table.lengths, advantages)
    spread = np.sqrt(statistics.variance(total))
    deviation = total - statistics.mean(total)
    advantages = deviation / (spread + eps) if spread > eps else np.zeros_like(total)
    return turn_table.trajectories_to_tokens(groups, table, advantages)


def by_role(groups: Sequence[Group], norm: Normalization, *, per_episode: str = "") -> TokenAdvantages:
    """Several agents in an episode: each one's reward against those of the same agent in the group.

    `Trajectory.agent` names the agent. Agents named in `per_episode`, joined by `+`, play several times in each
    episode: they are compared within it.
    """
    table = turn_table.from_groups(groups)
    members = list(turn_table.trajectories(groups))
    agents = [member.agent for member in members]
    episode = [member.member if member.agent in per_episode.split("+") else -1 for member in members]
    key = turn_table.group_ids(table.group, agents, np.array(episode, dtype=np.int64))
    advantages = turn_table.compare(table.returns, key, table.lengths, norm)
    return turn_table.trajectories_to_tokens(groups, table, advantages)


def most_varied(
    groups: Sequence[Group], norm: Normalization, *, ratio: Share = 0.25, lowest: bool = False
) -> TokenAdvantages:
    """StarPO-S (arXiv:2504.20073): `outcome`, but only for the share `ratio` of groups whose task rewards vary most.

    The others have advantage 0 and stay in the loss's denominator; one group is always kept. `lowest` takes the least
    varied instead.
    """
    table = turn_table.from_groups(groups)
    task_returns = np.array([trajectory.reward for trajectory in turn_table.trajectories(groups)], dtype=np.float64)
    is_kept = subsets.most_varied(task_returns, table.group, ratio=ratio, lowest=lowest, least=1)
    advantages = np.where(is_kept, turn_table.trajectory_advantages(table, norm), 0.0)
    return turn_table.trajectories_to_tokens(groups, table, advantages)


def resampled_on_correct(
    groups: Sequence[Group], norm: Normalization, *, keep: Share = 0.5, least: Count = 2, penalty: str = ""
) -> TokenAdvantages:
    """GRPO-RoC (arXiv:2508.20722): `outcome` over the share `keep` of a group, with the cleanest of its successes.

    The others have advantage 0 and are in no statistic; play twice as many as are to be trained on. At least `least`
    successes and failures are kept where there are as many. The cleanest successes have the lowest penalty: the share
    of their replies that were not valid, or the mean over their turns of the stream or metric that `penalty` names.
    """
    table = turn_table.from_groups(groups)
    penalties = _penalties(groups, table, penalty)
    is_kept = np.zeros(len(table.returns), dtype=np.bool_)
    for number in range(len(groups)):
        rows = np.nonzero(table.group == number)[0]
        count = max(1, round(keep * len(rows)))
        is_kept[rows] = subsets.resample_on_correct(table.returns[rows], penalties[rows], keep=count, least=least)
    advantages = np.zeros(len(is_kept))
    advantages[is_kept] = turn_table.compare(table.returns[is_kept], table.group[is_kept], table.lengths[is_kept], norm)
    return turn_table.trajectories_to_tokens(groups, table, advantages)


def _penalties(groups: Sequence[Group], table: TurnTable, name: str) -> Floats:
    """The penalty (B,) of each trajectory: the mean of `name` over its turns, or the share of invalid replies."""
    if name:
        per_turn = turn_table.turn_signal(groups, name)
    else:
        per_turn = 1 - np.array([turn.valid for turn in turn_table.turns_of(groups)], dtype=np.float64)
    total = np.zeros(len(table.returns))
    np.add.at(total, table.trajectory, per_turn)
    return subsets.error_share(total, table.num_turns.astype(np.float64))
