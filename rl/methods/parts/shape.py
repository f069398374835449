"""Reward shaping: `(group) -> rewards`, one per trajectory. A recipe's shapes apply in order to `group.rewards`."""

from __future__ import annotations

from rl.methods.options import Count, NonNegative
from rl.records import Group


def soft_overlong(
    group: Group, *, budget: Count = 20480, cache: Count = 4096, factor: NonNegative = 1.0, clamp: bool = True
) -> list[float]:
    """DAPO (arXiv:2503.14476, eq. 13): subtract up to `factor`, linearly over the last `cache` tokens of `budget`.

    Returns one reward per trajectory, in order, from `group.rewards`. A length counts the sampled tokens of the whole
    episode. Beyond the budget the penalty stays at `factor`; `clamp=False` lets it grow on, as some trainers ship it.
    """
    excess = [(trajectory.num_sampled - (budget - cache)) / cache for trajectory in group.trajectories]
    ceiling = 1.0 if clamp else float("inf")
    return [reward - factor * min(max(x, 0.0), ceiling) for reward, x in zip(group.rewards, excess, strict=True)]


def invalid_turns(group: Group, *, penalty: NonNegative = 0.1) -> list[float]:
    """Subtract `penalty` for each turn whose reply was not valid (GiGPO, RAGEN).

    Returns one reward per trajectory, in order, from `group.rewards`.
    """
    num_invalid = [sum(not turn.valid for turn in trajectory.replies) for trajectory in group.trajectories]
    return [reward - penalty * count for reward, count in zip(group.rewards, num_invalid, strict=True)]
