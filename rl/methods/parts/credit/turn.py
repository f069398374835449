"""Credit from the returns of single turns, compared with those of other turns.

Legend: B trajectories, R turns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from rl.methods.estimators import turn_table
from rl.methods.estimators.turn_table import TokenAdvantages
from rl.methods.options import NonNegative, Share
from rl.records import Group

if TYPE_CHECKING:
    from rl.methods.inputs import Normalization


def turn_returns(
    groups: Sequence[Group],
    norm: Normalization,
    *,
    gamma: Share = 1.0,
    among: Literal["members", "padded", "alive", "pooled", "agent"] = "members",
    improvement: bool = False,
    unbiased: bool = False,
) -> TokenAdvantages:
    """Turn-wise GRPO: the reward from this turn on, `G_k = r_k + gamma * G_{k+1}`, against `baseline` by `scale`.

    Args:
        groups: The groups.
        norm: Baseline and scale of the comparison.
        gamma: Discount per turn; 0 compares each turn's own reward.
        among: What a turn is compared with. `"members"`: the same turn of all members of the group; one whose episode
            is over takes part with its last turn's return, so that going on keeps its price, and every turn keeps the
            same share of the gradient however few reached it. `"padded"`: the same, with 0 for an episode that is over.
            As other trainers ship it, `"alive"`: the same turn of those who reached it; `"agent"`: of those, the ones
            of the same agent (AT-GRPO); `"pooled"`: all turns of the group.
        improvement: First takes from each reward that of the turn before, for rewards that score the state of the work.
        unbiased: With `improvement`, the last turn's score counts `1 - gamma` times, so that discounted returns are
            those of the scores themselves (`shape_rewards(unbiased=True)` of KernelGYM).
    """
    table = turn_table.from_groups(groups)
    rewards = table.rewards
    if improvement:
        rewards = turn_table.improvement(table, rewards, last=1.0 - gamma if unbiased else 1.0)
    returns = turn_table.returns_to_go(table, rewards, gamma=gamma)
    if among in ("members", "padded"):
        after_end: Literal["last", "zero"] = "last" if among == "members" else "zero"
        advantages = turn_table.compare_by_turn(table, returns, norm, after_end=after_end)
        return turn_table.turns_to_tokens(groups, table, advantages)
    columns = [table.turn_group]
    if among != "pooled":
        columns.append(table.index)
    if among == "agent":
        agents = turn_table.group_ids([trajectory.agent for trajectory in turn_table.trajectories(groups)])
        columns.append(agents[table.trajectory])
    advantages = turn_table.compare(returns, turn_table.group_ids(*columns), table.num_tokens, norm)
    return turn_table.turns_to_tokens(groups, table, advantages)


def matched_returns(
    groups: Sequence[Group],
    norm: Normalization,
    *,
    gamma: Share = 0.5,
    episode: NonNegative = 1.0,
    turn: NonNegative = 1.0,
    matched: str = "matched",
    unit: Literal["trajectory", "turn"] = "trajectory",
    singleton: Literal["zero", "raw"] = "zero",
) -> TokenAdvantages:
    """UI-S1 (arXiv:2509.11543): turns played along a recorded expert, compared by episode and by turn.

    `G_k = r_k + gamma * G_{k+1}` while turns do as the expert does. One that does not has `G_k = r_k` and adds nothing
    to those before it, because the record continues without it.

    Args:
        groups: Groups whose turns have the stream or metric `matched`.
        norm: Baseline and scale of both comparisons.
        gamma: Discount per turn.
        episode: Weight of the advantage of the trajectory's reward in its group.
        turn: Weight of the advantage of `G_k` among the same turns of the members who reached it.
        matched: The stream or metric that is 0 where a turn did otherwise than the expert.
        unit: `"turn"` compares rewards of single turns over all turns of the group for the first, as released.
        singleton: `"raw"` keeps the first as it is where nothing is there to compare it with, as released; the second
            is 0 there in any case.
    """
    table = turn_table.from_groups(groups)
    is_matched = turn_table.turn_signal(groups, matched) != 0
    returns = turn_table.returns_to_go(table, table.rewards, gamma=gamma, is_linked=is_matched)
    same_turn = turn_table.group_ids(table.turn_group, table.index)
    by_turn = turn_table.compare(returns, same_turn, table.num_tokens, norm)
    by_episode = turn_table.episode_advantages(table, table.rewards, norm, unit=unit, singleton=singleton)
    return turn_table.turns_to_tokens(groups, table, episode * by_episode + turn * by_turn)
