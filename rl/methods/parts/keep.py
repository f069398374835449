"""Which groups are trained on: `(group) -> bool`. A group that is not kept is replaced by another."""

from __future__ import annotations

from statistics import fmean, pstdev

from rl.methods.options import NonNegative
from rl.records import Group


def any_group(group: Group) -> bool:
    """Every group with at least one finished member."""
    return bool(group.trajectories)


def varied(group: Group) -> bool:
    """DAPO's dynamic sampling (arXiv:2503.14476): at least two members, whose task rewards are not all equal.

    It reads returns, not shaped rewards: a group that differs in length only has nothing to teach about the task.
    """
    return len({trajectory.reward for trajectory in group.trajectories}) > 1


def spread(group: Group, *, least: NonNegative = 0.3) -> bool:
    """UI-S1 (arXiv:2509.11543): the population standard deviation of the task rewards exceeds `least`."""
    rewards = [trajectory.reward for trajectory in group.trajectories]
    return len(rewards) > 1 and pstdev(rewards) > least


def pivotal(group: Group, *, below: float = 0.6) -> bool:
    """PivotRL (arXiv:2603.21383): the task rewards are not all equal, and their mean is less than `below`."""
    return varied(group) and fmean(trajectory.reward for trajectory in group.trajectories) < below
