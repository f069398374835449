"""Credit from information that turns gave the policy: a gain per turn, from a stream or a metric.

Legend: B trajectories, R turns, M sampled tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from rl.methods.estimators import gains, statistics, turn_table
from rl.methods.estimators.turn_table import TokenAdvantages
from rl.methods.options import NonNegative, Positive, Share
from rl.records import Group

if TYPE_CHECKING:
    from rl.methods.inputs import Normalization


def information_gain(
    groups: Sequence[Group],
    norm: Normalization,
    *,
    gain: str = "gain",
    among: Literal["joint", "separate"] = "joint",
    centre: Literal["returns", "rewards"] = "returns",
    norm_by_std: bool = True,
    gamma: Share = 1.0,
    gain_weight: NonNegative = 1.0,
    outcome_weight: NonNegative = 1.0,
) -> TokenAdvantages:
    """IGPO (arXiv:2510.14967): a turn's return is its gain and all later ones, and last the trajectory's reward.

    Each turn is paid its gain, the last turn the trajectory's reward instead. Payments are divided by their population
    deviation in the group, then summed from each turn on.

    Args:
        groups: Groups whose turns have the stream or metric `gain`.
        norm: Baseline and scale of `centre="returns"`; not read otherwise.
        gain: The name of that stream (numbers per token that a score part has written) or metric (of the environment's
            `info["metrics"]`).
        among: Whether gains and outcomes have one deviation (`"joint"`) or one each (`"separate"`).
        centre: `"rewards"` subtracts the mean of the payments before they are summed, as published: a turn of average
            gain is then worth nothing, and going on loses its price. `"returns"` sums first and compares the same turn
            of all members (as `turn_returns` does).
        norm_by_std: False leaves payments in their own unit (`norm_adv_by_std_in_grpo=False` of the release).
        gamma: Discount per turn.
        gain_weight: Weight of gains, applied before the division.
        outcome_weight: Weight of outcomes, applied before the division.
    """
    table = turn_table.from_groups(groups)
    has_gain = gains.has_next_turn(table.index, table.num_turns, table.trajectory)
    outcomes = outcome_weight * table.returns[table.trajectory]
    payments = np.where(has_gain, gain_weight * turn_table.turn_signal(groups, gain), outcomes)
    group = table.turn_group if among == "joint" else turn_table.group_ids(table.turn_group, has_gain)
    scores = gains.standardise(payments, group, centre=centre == "rewards", scale=norm_by_std)
    values = turn_table.returns_to_go(table, scores, gamma=gamma)
    if centre == "returns":
        values = turn_table.compare_by_turn(table, values, norm)
    return turn_table.turns_to_tokens(groups, table, values)


def gated_gain(
    groups: Sequence[Group],
    norm: Normalization,
    *,
    gain: str = "gain",
    beta: NonNegative = 0.5,
    temperature: Positive = 0.05,
    normalize_intrinsic: bool = True,
    per_token: bool = False,
) -> TokenAdvantages:
    """InfoPO (arXiv:2603.00656): the trajectory's advantage, plus `beta` times its turns' gains where outcomes agree.

    Gains are standardised within the group, without those of 0 and of last turns, held within the deviation of the
    outcomes' advantages, and multiplied by a gate: half where all outcomes are equal, nearly 0 where they differ by
    more than `temperature`. `normalize_intrinsic=False` takes gains as they are (the release's option of that name).
    `per_token` spreads a gain over its turn's tokens before all of that, as the release does, so that long turns weigh
    more. `gain` names a stream of turns (numbers per token that a score part has written) or a metric (of
    `info["metrics"]`).
    """
    table = turn_table.from_groups(groups)
    outcome = np.repeat(turn_table.trajectory_advantages(table, norm), table.lengths)  # (M,)
    has_gain = gains.has_next_turn(table.index, table.num_turns, table.trajectory)
    values = np.where(has_gain, turn_table.turn_signal(groups, gain), 0.0)  # (R,)
    group = table.turn_group
    if per_token:
        values = np.repeat(values / np.maximum(table.num_tokens, 1), table.num_tokens)
        group = np.repeat(group, table.num_tokens)
    intrinsic = gains.standardise_nonzero(values, group) if normalize_intrinsic else values
    if not per_token:
        intrinsic = np.repeat(intrinsic, table.num_tokens)
    is_alone = statistics.group_size(table.group) == 1
    spread = np.where(is_alone, 1.0, statistics.group_std(table.returns, table.group))
    gate = np.repeat(gains.gate(spread, temperature=temperature), table.lengths)
    advantages = outcome + beta * gate * gains.magnitude_ratio(outcome, intrinsic) * intrinsic
    return turn_table.nest(groups, table.lengths, advantages)
