"""What a reward is compared with: `(rewards, group, lengths) -> baseline`.

All arrays are (B,), one entry per trajectory, or per turn where a credit part compares turns. `group` labels groups,
`lengths` counts sampled tokens. Errored episodes are never among them. A reward that is alone in its group has nothing
to be compared with: its baseline is itself, so that its advantage is 0. `singleton="raw"` makes that baseline 0, so
that the advantage is the reward itself, as other trainers ship it.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from rl.methods.estimators import statistics
from rl.methods.estimators.statistics import Floats, Ints
from rl.methods.parts import traits


def none(rewards: Floats, group: Ints, lengths: Ints) -> Floats:
    """REINFORCE: no baseline, 0 for each of `rewards` (B,)."""
    return np.zeros_like(rewards)


def group_mean(rewards: Floats, group: Ints, lengths: Ints, *, singleton: Literal["zero", "raw"] = "zero") -> Floats:
    """GRPO (arXiv:2402.03300): the mean of the group's rewards.

    `rewards`, `group` (labels) and the result are (B,); `lengths` is not read. A reward that is alone in its group is
    its own baseline, or has 0 with `singleton="raw"`.
    """
    return _apply_singleton(statistics.group_mean(rewards, group), group, singleton)


def leave_one_out(rewards: Floats, group: Ints, lengths: Ints, *, singleton: Literal["zero", "raw"] = "zero") -> Floats:
    """RLOO (arXiv:2402.14740): the mean reward of the other members of the group.

    `rewards`, `group` (labels) and the result are (B,); `lengths` is not read. A reward that is alone in its group is
    its own baseline, or has 0 with `singleton="raw"`.
    """
    size = statistics.group_size(group)
    deviation = rewards - statistics.group_mean(rewards, group)
    return _apply_singleton(rewards - size / np.maximum(size - 1, 1) * deviation, group, singleton)


def batch_mean(rewards: Floats, group: Ints, lengths: Ints) -> Floats:
    """The mean of `rewards` (B,) over the whole update, whatever their group: the same number for each (B,).

    `group` and `lengths` are not read.
    """
    return np.full_like(rewards, statistics.mean(rewards))


def length_weighted_mean(
    rewards: Floats, group: Ints, lengths: Ints, *, singleton: Literal["zero", "raw"] = "zero"
) -> Floats:
    """OPO (arXiv:2505.23585): the group's mean weighted by length, of least variance if gradients grow with length.

    `rewards`, `group` (labels), `lengths` (sampled tokens) and the result are (B,). A reward that is alone in its group
    is its own baseline, or has 0 with `singleton="raw"`.
    """
    mean = statistics.group_mean(rewards, group, lengths.astype(np.float64))
    return _apply_singleton(mean, group, singleton)


@traits(expects={"scale": ("group_mad", "none")})
def group_median(rewards: Floats, group: Ints, lengths: Ints) -> Floats:
    """MC-GRPO (arXiv:2601.22582): the median of the group's rewards; of an even number the lower middle one.

    `rewards`, `group` (labels) and the result are (B,); `lengths` is not read. The member whose reward is the median
    has advantage 0, so that one member more is played than teaches.
    """
    return statistics.group_median(rewards, group)


def _apply_singleton(baseline: Floats, group: Ints, singleton: str) -> Floats:
    """`baseline` (B,), with `"raw"` 0 for a reward that is alone in its group."""
    return np.where(statistics.group_size(group) == 1, 0.0, baseline) if singleton == "raw" else baseline
