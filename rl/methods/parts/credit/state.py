"""Credit from turns that began in the same state: GiGPO and HGPO. States are grouped by `group_by_state`.

Legend: B trajectories, R turns.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal

from rl.methods.estimators import states, turn_table
from rl.methods.estimators.statistics import Ints
from rl.methods.estimators.turn_table import TokenAdvantages, TurnTable
from rl.methods.options import Natural, NonNegative, PartError, Share
from rl.methods.parts import STATES, traits
from rl.records import Group

if TYPE_CHECKING:
    from rl.methods.inputs import Normalization


@traits(STATES)
def anchored(
    groups: Sequence[Group],
    norm: Normalization,
    *,
    gamma: Share = 0.95,
    omega: NonNegative = 1.0,
    similarity: Share = 1.0,
    unit: Literal["trajectory", "turn"] = "trajectory",
    singleton: Literal["zero", "raw"] = "zero",
) -> TokenAdvantages:
    """GiGPO (arXiv:2505.10978, eq. 8): the trajectory's advantage, plus `omega` times that of the turn in its state.

    The second compares returns from the turn on among all turns of the group that began in the same `Turn.state`; a
    state that was met once adds 0.

    Args:
        groups: Groups whose turns have a state.
        norm: Baseline and scale of both comparisons.
        gamma: Discount per turn of the returns.
        omega: Weight of the comparison by state.
        similarity: Below 1, states also count as the same if the `difflib` ratio of their texts reaches it.
        unit: `"turn"` lets a trajectory count once per turn in its group's statistics, as the release does.
        singleton: `"raw"` keeps the episode's reward as it is where nothing is there to compare it with, as released.
    """
    table = turn_table.from_groups(groups)
    state = group_by_state(groups, table, similarity)
    returns = turn_table.returns_to_go(table, table.rewards, gamma=gamma)
    by_state = turn_table.compare(returns, state, table.num_tokens, norm)
    outcomes = table.returns[table.trajectory]
    by_episode = turn_table.episode_advantages(table, outcomes, norm, unit=unit, singleton=singleton)
    return turn_table.turns_to_tokens(groups, table, by_episode + omega * by_state)


@traits(STATES)
def hierarchical(
    groups: Sequence[Group],
    norm: Normalization,
    *,
    gamma: Share = 0.95,
    depth: Natural = 2,
    alpha: NonNegative = 1.0,
    episode: bool = False,
) -> TokenAdvantages:
    """HGPO (arXiv:2602.22817): a turn's return among those with the same state, and the same 1 to `depth` before it.

    The longer the common history, the larger its weight, by the power `alpha`; 0 weighs all equally. A turn whose state
    no other shares has advantage 0, or its trajectory's where `episode` adds that as one more level. `gamma` discounts
    returns per turn.
    """
    table = turn_table.from_groups(groups)
    state = group_by_state(groups, table)
    advantages = states.blend_levels(
        turn_table.returns_to_go(table, table.rewards, gamma=gamma),
        states.history_groups(state, table.index, depth=depth),
        table.num_tokens,
        partial(turn_table.compare, norm=norm),
        alpha=alpha,
        episode=turn_table.trajectory_advantages(table, norm)[table.trajectory] if episode else None,
    )
    return turn_table.turns_to_tokens(groups, table, advantages)


def group_by_state(groups: Sequence[Group], table: TurnTable, similarity: float = 1.0) -> Ints:
    """Number the state in which each turn began (R,): equal for turns of one group in the same state and role.

    States are the texts `Turn.state`. With `similarity` below 1, states also count as the same if the `difflib` ratio
    of their texts reaches it. Raises `PartError` where turns have no state.
    """
    turns = turn_table.turns_of(groups)
    texts = [turn.state for turn in turns]
    if missing := texts.count(""):
        raise PartError(
            f"credit compares turns by their state, which {missing} of {len(texts)} turns lack: "
            "the environment must give info['state']"
        )
    texts = [f"{turn.role}: {turn.state}" if turn.role else turn.state for turn in turns]
    if similarity < 1:
        return states.cluster_similar(texts, table.turn_group, threshold=similarity)
    return turn_table.group_ids(table.turn_group, texts)
