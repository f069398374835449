"""The unit of an advantage: `(advantages, rewards, group) -> advantages`.

All arrays are (B,), one entry per trajectory, or per turn where a credit part compares turns. Rewards without spread
give 0, never amplified rounding. A single value has no spread to measure; its unit is 1.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from rl.methods.estimators import statistics
from rl.methods.estimators.statistics import Floats, Ints
from rl.methods.options import NonNegative, Positive


def none(advantages: Floats, rewards: Floats, group: Ints) -> Floats:
    """Leave `advantages` (B,) as they are: rewards keep their own unit."""
    return advantages


def group_std(
    advantages: Floats, rewards: Floats, group: Ints, *, eps: Positive = 1e-6, population: bool = False
) -> Floats:
    """GRPO (arXiv:2402.03300): divide by the group's unbiased standard deviation plus `eps`; 0 where it is <= `eps`.

    Divides `advantages` (B,); the deviation is that of `rewards` (B,) with the same label in `group` (B,), 1 for a
    reward that is alone. `population=True` divides the sum of squares by the group's size `n`, not by `n - 1`.
    """
    size = statistics.group_size(group)
    std = statistics.group_std(rewards, group) * (np.sqrt((size - 1) / size) if population else 1.0)
    std = np.where(size == 1, 1.0, std)
    return np.where(std > eps, advantages / (std + eps), 0.0)


def leave_one_out_std(advantages: Floats, rewards: Floats, group: Ints, *, eps: Positive = 1e-8) -> Floats:
    """Divide by the unbiased standard deviation of the others in the group plus `eps`; 0 where it is <= `eps`.

    Divides `advantages` (B,); the deviation is that of `rewards` (B,) with the same label in `group` (B,). A group of
    two leaves a single other member, which has no spread to measure: its unit is 1.
    """
    size = statistics.group_size(group)
    num_others = np.maximum(size - 1, 1)
    deviation = rewards - statistics.group_mean(rewards, group)
    squares = statistics.group_std(rewards, group) ** 2 * num_others - size / num_others * deviation**2
    std = np.where(size > 2, np.sqrt(np.maximum(squares, 0.0) / np.maximum(size - 2, 1)), 1.0)
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

    Divides `advantages` (B,) by the deviation of `rewards` (B,); a single reward has 1. With `singleton="raw"`, members
    that are alone in their group are left as they are.
    """
    std = np.sqrt(statistics.variance(rewards)) if rewards.size > 1 else 1.0
    quotient = advantages / (std + eps) if std > eps else np.zeros_like(advantages)
    return np.where(statistics.group_size(group) == 1, advantages, quotient) if singleton == "raw" else quotient


def group_mad(
    advantages: Floats,
    rewards: Floats,
    group: Ints,
    *,
    eps: Positive = 1e-3,
    floor: NonNegative = 0.25,
    most: Positive = 5.0,
    rescale: bool = False,
) -> Floats:
    """MC-GRPO (arXiv:2601.22582): divide by the median absolute deviation from the group's median, plus `eps`.

    Divides `advantages` (B,); the deviation is that of `rewards` (B,) with the same label in `group` (B,). Rewards of
    0 and 1 have deviation 0 in most groups, so it is at least `floor` times the range of the group's rewards, and the
    result is held within `-most` and `most`; as released, with a factor of up to 1,000: `floor=0,most=inf`. `rescale`
    multiplies what is not 0 by the group's size over the number of such members.
    """
    distance = np.abs(rewards - statistics.group_median(rewards, group))
    low, high = (statistics.group_extreme(rewards, group, highest=highest) for highest in (False, True))
    unit = np.maximum(statistics.group_median(distance, group), floor * (high - low)) + eps
    quotient = np.where(high > low, advantages / unit, 0.0)
    if rescale:
        size = statistics.group_size(group)
        share = statistics.group_mean((np.abs(quotient) > 1e-6).astype(np.float64), group)
        quotient = np.where(share > 0, quotient / np.maximum(share, 1 / size), quotient)
    return quotient.clip(-most, most)


def group_mean(advantages: Floats, rewards: Floats, group: Ints, *, eps: Positive = 1e-6) -> Floats:
    """MaxRL (arXiv:2602.02710): divide by the mean of the group's rewards plus `eps`; 0 where it is <= `eps`.

    Divides `advantages` (B,); the mean is that of `rewards` (B,) with the same label in `group` (B,), 1 for a reward
    that is alone. For rewards of 0 and 1 it is the success rate: the rarer a success, the more it weighs.
    """
    mean = np.where(statistics.group_size(group) == 1, 1.0 - eps, statistics.group_mean(rewards, group))
    return np.where(mean > eps, advantages / (np.maximum(mean, eps) + eps), 0.0)


def bounded_std(
    advantages: Floats,
    rewards: Floats,
    group: Ints,
    *,
    low: float = -3.0,
    high: float = 3.0,
    among: Literal["batch", "group"] = "batch",
    eps: NonNegative = 0.0,
) -> Floats:
    """Divide by the unbiased standard deviation of the *advantages* plus `eps`, then hold within `low` and `high`.

    The default is SeeUPO's (arXiv:2602.06554), over the update; RAGEN's asymmetric clip (arXiv:2504.20073) is
    `low=-1,high=3,among=group,eps=1e-6`. 0 where the deviation is <= 1e-6, which is rounding.
    """
    key = np.zeros_like(group) if among == "batch" else group
    std = np.where(statistics.group_size(key) == 1, 1.0, statistics.group_std(advantages, key))
    unit = np.where(std > 1e-6, std + eps, np.inf)
    return (advantages / unit).clip(low, high)
