"""Credit from what turns told the policy: gains per turn, from a score part's stream or the environment's metrics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from rl.methods.estimators import gains, statistics, turn_table
from rl.methods.estimators.turn_table import Credit
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
    gamma: Share = 1.0,
    gain_weight: NonNegative = 1.0,
    outcome_weight: NonNegative = 1.0,
) -> Credit:
    """IGPO (arXiv:2510.14967): each turn is paid its gain, the last one the trajectory's reward; then summed onward.

    Payments are divided by their deviation in the group: gains and outcomes together (`"joint"`) or each among its own
    kind (`"separate"`). `centre="rewards"` subtracts their mean before the sum, as published; a turn of average gain is
    then worth nothing, and going on loses its price. `"returns"` sums first and compares the same turn of all members
    (`turn_returns`) by `baseline` and `scale`.
    """
    played = turn_table.read(groups)
    told = gains.told_turns(played.index, played.counts, played.trajectory)
    outcomes = outcome_weight * played.returns[played.trajectory]
    paid = np.where(told, gain_weight * turn_table.numbers(groups, gain), outcomes)
    group = played.group[played.trajectory]
    key = group if among == "joint" else turn_table.labels(group, told)
    scored = gains.standardised(paid, key, centre=centre == "rewards")
    values = turn_table.to_go(played, scored, gamma=gamma)
    if centre == "returns":
        values = turn_table.compared_by_turn(played, values, norm)
    return turn_table.on_tokens(groups, played, values)


def gated_gain(
    groups: Sequence[Group],
    norm: Normalization,
    *,
    gain: str = "gain",
    beta: NonNegative = 0.5,
    temperature: Positive = 0.05,
    per_token: bool = False,
) -> Credit:
    """InfoPO (arXiv:2603.00656): the trajectory's advantage, plus `beta` times its turns' gains where outcomes agree.

    Gains are standardised within the group, those of 0 and of the last turn left out, held within the deviation of the
    outcomes' advantages, and let through by a gate: half where all outcomes are equal, nearly nothing where they
    differ. `per_token` spreads a gain over its turn's tokens before any of that, as the release does, so that long
    turns weigh more.
    """
    played = turn_table.read(groups)
    outcome = np.repeat(turn_table.per_trajectory(played, norm), played.lengths)
    told = gains.told_turns(played.index, played.counts, played.trajectory)
    found = np.where(told, turn_table.numbers(groups, gain), 0.0)
    group = played.group[played.trajectory]
    if per_token:
        found = np.repeat(found / np.maximum(played.tokens, 1), played.tokens)
        gain_advantage = gains.standardised_where_told(found, np.repeat(group, played.tokens))
    else:
        gain_advantage = np.repeat(gains.standardised_where_told(found, group), played.tokens)
    alone = statistics.group_size(played.group) == 1
    spread = np.where(alone, 1.0, statistics.group_std(played.returns, played.group))
    opened = np.repeat(gains.gate(spread, temperature=temperature), played.lengths)
    earned = outcome + beta * opened * gains.guard(outcome, gain_advantage) * gain_advantage
    return turn_table.nested(groups, played.lengths, earned)
