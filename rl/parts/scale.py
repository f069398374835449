"""The unit of an advantage: `(advantages, rewards, group) -> advantages`, all (B,), one entry per trajectory.

Rewards without spread give 0, never amplified rounding. A single value has no spread to measure; its unit is 1.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from rl.options import Positive
from rl.parts import statistics
from rl.parts.statistics import Floats, Ints


def none(advantages: Floats, rewards: Floats, group: Ints) -> Floats:
    """Rewards keep their own unit."""
    return advantages


def group_std(advantages: Floats, rewards: Floats, group: Ints, *, eps: Positive = 1e-6) -> Floats:
    """GRPO (arXiv:2402.03300): divide by the group's unbiased standard deviation plus `eps`; 0 where it is <= `eps`."""
    std = np.where(statistics.group_size(group) == 1, 1.0, statistics.group_std(rewards, group))
    return np.where(std > eps, advantages / (std + eps), 0.0)


def batch_std(
    advantages: Floats,
    rewards: Floats,
    group: Ints,
    *,
    eps: Positive = 1e-6,
    singleton: Literal["scaled", "raw"] = "scaled",
) -> Floats:
    """Divide by the unbiased standard deviation of all rewards of the update plus `eps`; 0 where it is <= `eps`.

    With `singleton="raw"`, members that are alone in their group are left as they are.
    """
    std = np.sqrt(statistics.variance(rewards)) if rewards.size > 1 else 1.0
    scaled = advantages / (std + eps) if std > eps else np.zeros_like(advantages)
    return np.where(statistics.group_size(group) == 1, advantages, scaled) if singleton == "raw" else scaled
