"""Which groups are trained on: `(group) -> bool`. A group that is not kept is replaced by another."""

from __future__ import annotations

from rl.records import Group


def any_group(group: Group) -> bool:
    """Every group with at least one finished member."""
    return bool(group.trajectories)


def varied(group: Group) -> bool:
    """DAPO's dynamic sampling (arXiv:2503.14476): at least two members, whose task rewards are not all equal.

    It reads returns, not shaped rewards: a group that differs in length only has nothing to teach about the task.
    """
    return len({trajectory.reward for trajectory in group.trajectories}) > 1
