"""Which groups are trained on: `(group) -> bool`. A group that is not kept is replaced by another."""

from __future__ import annotations

from statistics import fmean, pstdev

from rl.methods.options import NonNegative
from rl.records import Group


def any_group(group: Group) -> bool:
    """Keep every group with at least one finished member."""
    return bool(group.trajectories)


def varied(group: Group) -> bool:
    """DAPO's dynamic sampling (arXiv:2503.14476): keep a group whose members' task rewards are not all equal.

    It reads returns, not shaped rewards: a group that differs in length only has nothing to teach about the task. A
    group of one member is not kept.
    """
    return len({trajectory.reward for trajectory in group.trajectories}) > 1


def spread(group: Group, *, least: NonNegative = 0.3) -> bool:
    """UI-S1 (arXiv:2509.11543): keep a group whose task rewards have a standard deviation above `least`.

    The deviation is that of a population (divided by the group's size). A group of one member is not kept.
    """
    rewards = [trajectory.reward for trajectory in group.trajectories]
    return len(rewards) > 1 and pstdev(rewards) > least


def pivotal(group: Group, *, below: float = 0.6) -> bool:
    """PivotRL (arXiv:2603.21383): keep a group whose task rewards are not all equal, with a mean less than `below`."""
    return varied(group) and fmean(trajectory.reward for trajectory in group.trajectories) < below
