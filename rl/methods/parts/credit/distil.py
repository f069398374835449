"""How much each trajectory counts when a policy learns from its successes and, of its failures, from a teacher."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from rl.methods.estimators import token_table, turn_table
from rl.methods.estimators.statistics import Floats
from rl.methods.estimators.turn_table import TokenAdvantages
from rl.methods.options import Positive
from rl.methods.parts import needs
from rl.records import Group

if TYPE_CHECKING:
    from rl.methods.inputs import Normalization


@needs("teacher")
def calibrated_paths(
    groups: Sequence[Group],
    norm: Normalization,
    *,
    tau: Positive = 1.0,
    student: Literal["unsure", "sure"] = "unsure",
    teacher: Literal["unsure", "sure"] = "sure",
    total: Literal["count", "one"] = "count",
) -> TokenAdvantages:
    """SCOPE (signal-calibrated on-policy distillation, 2026): weights for `surrogate=dual_path`, per group and path.

    Successes, whose reward is above 0, have positive numbers, and failures negative ones. Successes weigh by
    `softmax(-s / tau)` with `s` the sampling policy's mean log-probability per token, so that unusual ones count most,
    and failures by `softmax(t / tau)` with `t` the teacher's, so that those count most that it finds its way in; the
    other choice turns the sign. The weights of a path add up to its number of members, or to 1. `tau=inf` weighs them
    equally. Neither baseline nor scale is read.
    """
    table = turn_table.from_groups(groups)
    rewards = np.array([reward for group in groups for reward in group.rewards], dtype=np.float64)
    own = _means(token_table.sampler_logprobs(groups), table.lengths)
    others = _means(token_table.read_stream(groups, "teacher"), table.lengths)
    weights = np.zeros(len(rewards))
    for number in range(len(groups)):
        for path, means, choice in ((rewards > 0, own, student), (rewards <= 0, others, teacher)):
            rows = path & (table.group == number)
            sign = 1.0 if choice == "sure" else -1.0
            scale = rows.sum() if total == "count" else 1.0
            weights[rows] = _softmax(sign * means[rows] / tau) * scale * (1.0 if means is own else -1.0)
    return token_table.nest(groups, np.repeat(weights, table.lengths))


def _means(per_token: Floats, lengths: np.ndarray) -> Floats:
    """Means (B,) of numbers (M,) over each trajectory's tokens; 0 without tokens."""
    owner = np.repeat(np.arange(len(lengths)), lengths)
    total: Floats = np.bincount(owner, per_token, minlength=len(lengths)).astype(np.float64)
    return total / np.maximum(lengths, 1)


def _softmax(x: Floats) -> Floats:
    weights: Floats = np.exp(x - x.max(initial=-np.inf))
    return weights / weights.sum() if len(weights) else weights
