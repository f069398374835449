"""Reward shaping: `(group) -> rewards`, one per trajectory. A recipe's shapes apply in order to `group.rewards`."""

from __future__ import annotations

from agents.chains.skills import ROLE
from envs.episodes.chain import SOLVED
from rl.methods.options import Count, NonNegative
from rl.methods.parts.verdict.questions import FLAWED, RATING
from rl.records import Group, Trajectory


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


def turn_cost(group: Group, *, cost: NonNegative = 0.01) -> list[float]:
    """JADE (arXiv:2601.21916): subtract `cost` for each turn, so that a team asks its members no more than it has to.

    Returns one reward per trajectory, in order, from `group.rewards`. The size is our choice.
    """
    rewards = zip(group.rewards, group.trajectories, strict=True)
    return [reward - cost * len(trajectory.turns) for reward, trajectory in rewards]


def flawed_successes(group: Group, *, penalty: NonNegative = 1.0, metric: str = "") -> list[float]:
    """FAPO (arXiv:2510.22543): 1 for a success, `1 - penalty` for one with a flaw on its way, -1 for a failure.

    A success is flawed if a `metric` of this name is above 0 for one of its turns: one that the environment reports,
    such as a step checker's, or `judge/flawed`, which the verdict `first_error` writes. Without `metric`, it is flawed
    if the verdict says so, or where it was not judged, if one of its replies was not valid. Flawed successes are
    reinforced while failures outnumber the others, and suppressed afterwards. Returns one reward per trajectory, in
    order; `group.rewards` are not read.
    """
    rewards = []
    for trajectory in group.trajectories:
        is_judged = any(FLAWED in turn.metrics for turn in trajectory.replies)
        name = metric or (FLAWED if is_judged else "")
        is_flawed = any(turn.metrics.get(name, 0.0) > 0 if name else not turn.valid for turn in trajectory.replies)
        rewards.append((1.0 - penalty if is_flawed else 1.0) if trajectory.success else -1.0)
    return rewards


def rated(group: Group, *, weight: float = 1.0, metric: str = RATING) -> list[float]:
    """Add `weight` times the last value of a metric of each episode's turns, by default what a judge has rated.

    An episode without the metric, such as one that the judge did not answer about, gets the mean of the others in its
    group, which moves no advantage towards or away from it; without any in the group nothing is added. Returns one
    reward per trajectory, in order, from `group.rewards`.
    """
    of_each = [[turn.metrics[metric] for turn in one.replies if metric in turn.metrics] for one in group.trajectories]
    last = [values[-1] for values in of_each if values]
    mean = sum(last) / len(last) if last else 0.0
    ratings = [values[-1] if values else mean for values in of_each]
    return [reward + weight * rating for reward, rating in zip(group.rewards, ratings, strict=True)]


def skill_bonus(group: Group, *, bonus: NonNegative = 0.5) -> list[float]:
    """SAGE (arXiv:2512.17102): add `bonus` for skills that helped, in a chain of tasks with agent `skills`.

    It is added once for each task that was solved with a skill, and once for each task whose skill helped to solve a
    later one. Storing or using alone earns nothing. The size is our choice.

    Returns one reward per trajectory, in order, from `group.rewards`.
    """
    rewards = zip(group.rewards, group.trajectories, strict=True)
    return [reward + bonus * _num_helpful(trajectory) for reward, trajectory in rewards]


def _num_helpful(trajectory: Trajectory) -> int:
    """Count the tasks that were solved with a skill, and those whose skill helped to solve another."""
    place, num_solved_with_skill = 0, 0
    origins: dict[str, int] = {}  # the task that each skill is from
    used, helpful = set[int](), set[int]()
    for turn in trajectory.turns:
        name = turn.reply.get("skill") if turn.reply else None
        if turn.internal and turn.role == ROLE and name:
            origins[name] = place - 1
        elif name in origins:
            used.add(origins[name])
        if SOLVED in turn.metrics:
            if turn.metrics[SOLVED]:
                num_solved_with_skill += bool(used)
                helpful |= used
            used, place = set(), place + 1
    return num_solved_with_skill + len(helpful)
