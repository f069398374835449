"""Which groups are trained on: `(group) -> bool`. A group that is not kept is replaced by another."""

from __future__ import annotations

from statistics import fmean, pstdev

from rl.methods.estimators.tasks.difficulty import variance_share
from rl.methods.options import Natural, NonNegative, Share
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


def worthwhile(group: Group, *, least: Share = 0.8, early: Share = 0.3, until: Natural = 20) -> bool:
    """VCRL (arXiv:2509.19803): keep a group whose successes vary at least `least` times as much as they could.

    The variance is a share of the largest that a group of this size can have. For the first `until` policy versions
    `early` is enough. A group of one member is not kept.
    """
    count = len(group.trajectories)
    share = variance_share(sum(trajectory.success for trajectory in group.trajectories), count)
    return count > 1 and share >= (early if group.ticket.version < until else least)
