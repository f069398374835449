"""What a reward is compared with: `(rewards, group, lengths) -> baseline`, all (B,), one entry per trajectory.

`group` labels the group, `lengths` counts sampled tokens. Errored episodes are never among them. A trajectory that is
alone in its group has nobody to be compared with: its baseline is its own reward, so its advantage is 0, unless
`singleton="raw"` asks for the unbaselined reward that other trainers ship.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from rl.methods.estimators import statistics
from rl.methods.estimators.statistics import Floats, Ints


def none(rewards: Floats, group: Ints, lengths: Ints) -> Floats:
    """REINFORCE: nothing."""
    return np.zeros_like(rewards)


def group_mean(rewards: Floats, group: Ints, lengths: Ints, *, singleton: Literal["zero", "raw"] = "zero") -> Floats:
    """GRPO (arXiv:2402.03300): the mean of the group."""
    return _alone(statistics.group_mean(rewards, group), group, singleton)


def leave_one_out(rewards: Floats, group: Ints, lengths: Ints, *, singleton: Literal["zero", "raw"] = "zero") -> Floats:
    """RLOO (arXiv:2402.14740): the mean of the others in the group."""
    size = statistics.group_size(group)
    deviation = rewards - statistics.group_mean(rewards, group)
    return _alone(rewards - size / np.maximum(size - 1, 1) * deviation, group, singleton)


def batch_mean(rewards: Floats, group: Ints, lengths: Ints) -> Floats:
    """The mean of all trajectories of the update, whatever their group."""
    return np.full_like(rewards, statistics.mean(rewards))


def length_weighted_mean(
    rewards: Floats, group: Ints, lengths: Ints, *, singleton: Literal["zero", "raw"] = "zero"
) -> Floats:
    """OPO (arXiv:2505.23585): the group's mean weighted by length, of least variance if gradients grow with length."""
    return _alone(statistics.group_mean(rewards, group, lengths.astype(np.float64)), group, singleton)


def _alone(baseline: Floats, group: Ints, singleton: str) -> Floats:
    return np.where(statistics.group_size(group) == 1, 0.0, baseline) if singleton == "raw" else baseline
