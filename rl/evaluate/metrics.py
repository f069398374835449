"""Metrics of an evaluation: one value per task from groups, then means over tasks with intervals.

Failed (errored) episodes are excluded from every metric; they never score 0.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, nan
from statistics import fmean

import numpy as np

from agents.extension import ROLE, asks_for_more
from envs.types import Stop
from rl.evaluate.attempts import cost
from rl.evaluate.statistics import Interval, auc_at_k, cluster_bootstrap, pass_at_k, pass_hat_k, ratio_interval, wilson
from rl.evaluate.voting import Vote, cons_at_k
from rl.records import Group, Trajectory, Turn

TaskValues = Mapping[str, Sequence[float]]  # by metric: one value per task that has the metric
TaskTrajectories = Mapping[str, Sequence[Trajectory]]  # by task

UNIT_INTERVAL = Interval(0.0, 1.0)
# Names of metrics that lie in [0, 1], or the start of such names.
UNIT_METRICS = ("success", "invalid_mean", "pass_at/", "pass_hat/", "cons_at/", "auc_at/")


@dataclass(frozen=True, slots=True)
class StopSummary:
    """The number of episodes that stopped for one reason, and their success rate."""

    episodes: int
    success: float


def trajectories_by_task(groups: Sequence[Group]) -> dict[str, list[Trajectory]]:
    """Return the scored trajectories of each task in member order; an empty list if all samples of a task failed.

    The key is the task's id, or SPLIT/INDEX for an episode that failed before it had one. Each seat of a multi-agent
    task is a task of its own, named TASK#AGENT.
    """
    tasks: dict[str, list[Trajectory]] = {}
    for group in groups:
        for trajectory in sorted(group.trajectories, key=lambda t: t.member):
            tasks.setdefault(_label(trajectory, group), []).append(trajectory)
        for failure in group.errored:
            tasks.setdefault(_label(failure, group), [])  # lists the task even if nothing was scored
    return tasks


def task_splits(groups: Sequence[Group]) -> dict[str, str]:
    """Return the split of each task of `trajectories_by_task`. In a benchmark every environment has its own."""
    return {_label(t, group): group.ticket.split for group in groups for t in (*group.trajectories, *group.errored)}


def task_values(
    tasks: Iterable[Sequence[Trajectory]], counts: Sequence[int], vote: Vote, envs: Sequence[str] | None = None
) -> TaskValues:
    """Return every metric by name, such as `success`, `pass_at/4` or `metrics/NAME`: one value per task that has it.

    A named reward of an episode is the sum over its turns, as its return is: 0 for one that only other episodes of its
    environment have. A metric is the one of the last turn.

    Args:
        tasks: The scored trajectories of each task; a task without any has no metrics.
        counts: The numbers of samples k of pass@k and the like. A task with fewer samples has no value at k.
        vote: Reads the answer of a trajectory for cons@k.
        envs: A name for the environment of each task; None if all are of one environment.
    """
    values: dict[str, list[float]] = defaultdict(list)
    tasks = list(tasks)
    envs = [""] * len(tasks) if envs is None else envs
    no_rewards = _no_rewards(tasks, envs)
    has_extensions = any(turn.role == ROLE for task in tasks for t in task for turn in t.turns)
    for env, task in zip(envs, tasks, strict=True):
        if not task:
            continue
        success = [t.success for t in task]
        n, c = len(success), sum(success)
        costs = [cost(t) for t in task]
        values["success"].append(c / n)
        values["return_mean"].append(fmean(t.reward for t in task))
        values["turns_mean"].append(fmean(each.turns for each in costs))
        values["tokens_mean"].append(fmean(each.tokens for each in costs))
        values["invalid_mean"].append(fmean(_invalid_share(t) for t in task))
        if has_extensions:
            values["metrics/extensions"].append(fmean(map(_num_extensions, task)))
        votes = [vote(t) for t in task]
        for k in counts:
            if k <= n:
                values[f"pass_at/{k}"].append(pass_at_k(n, c, k))
                values[f"pass_hat/{k}"].append(pass_hat_k(n, c, k))
                values[f"cons_at/{k}"].append(cons_at_k(votes, success, k))
                values[f"auc_at/{k}"].append(auc_at_k(n, c, k))
        env_metrics: dict[str, list[float]] = defaultdict(list)
        for replies in (t.replies for t in task if t.replies):
            for name, value in {**no_rewards[env], **_reward_sums(replies), **replies[-1].metrics}.items():
                env_metrics[name].append(float(value))
        for name, samples in env_metrics.items():
            values[f"metrics/{name}"].append(fmean(samples))
    return values


def last_turn_names(tasks: Iterable[Sequence[Trajectory]]) -> list[str]:
    """Return the names of the environment's metrics, sorted; none if no episode has more than one reply."""
    all_replies = [t.replies for task in tasks for t in task if t.replies]
    if all(len(replies) == 1 for replies in all_replies):
        return []
    return sorted({name for replies in all_replies for name in replies[-1].metrics})


def metric_means(values: TaskValues) -> dict[str, float]:
    """Return the mean of each metric over its tasks, without metrics that have a value which is not finite."""
    return {name: fmean(of_tasks) for name, of_tasks in values.items() if all(map(isfinite, of_tasks))}


def metric_interval(name: str, values: Sequence[float], samples: int, seed: int) -> Interval:
    """Return the 95 % interval of a metric's mean from its `values`, one per task.

    `name` says whether the metric lies in [0, 1] (`UNIT_METRICS`); `samples` is the number of samples per task.
    Wilson's interval for probabilities with one sample per task, else the bootstrap over tasks, seeded by `seed`.
    """
    is_unit = name.startswith(UNIT_METRICS)
    if is_unit and samples == 1 and name != "invalid_mean":
        return wilson(sum(values), len(values))
    return cluster_bootstrap(values, np.random.default_rng(seed), bounds=UNIT_INTERVAL if is_unit else None)


def success_counting_errors(groups: Iterable[Group]) -> list[float]:
    """Return the success rate of each task with errored episodes as failures; tasks that failed wholly have 0."""
    outcomes: dict[str, list[bool]] = {}
    for group in groups:
        names = [t.task for t in (*group.trajectories, *group.errored) if t.task]
        place = f"{group.ticket.split}/{group.ticket.index}"
        for t in (*group.trajectories, *group.errored):
            label = t.task or (names[0] if names else place)
            outcomes.setdefault(label if t.agent == "agent" else f"{label}#{t.agent}", []).append(
                t.success and t.stop != Stop.ERROR
            )
    return [fmean(task) for task in outcomes.values()]


def cost_per_success(tasks: TaskTrajectories) -> dict[str, tuple[float | None, Interval]]:
    """Return all replies and all sampled tokens, failures included, divided by the number of successes.

    Each with its 95 % interval, under `turns_per_solved` and `tokens_per_solved`. None without successes and, for
    tokens, for a policy that samples none.
    """
    scored_tasks = [task for task in tasks.values() if task]
    successes = [sum(t.success for t in task) for task in scored_tasks]
    ratios: dict[str, tuple[float | None, Interval]] = {}
    for name, column in (("turns_per_solved", 0), ("tokens_per_solved", 1)):
        costs = [sum(cost(t)[column] for t in task) for task in scored_tasks]
        if sum(successes) and sum(costs):
            ratios[name] = sum(costs) / sum(successes), ratio_interval(costs, successes)
        else:
            ratios[name] = None, Interval(nan, nan)
    return ratios


def stop_summaries(tasks: TaskTrajectories) -> dict[str, StopSummary]:
    """Return the number and the success rate of the scored episodes by why they stopped, the most frequent first.

    The reasons are the texts of `envs.types.Stop`, such as "terminated".
    """
    trajectories = [t for task in tasks.values() for t in task]
    episodes = Counter(str(t.stop) for t in trajectories)
    successes = Counter(str(t.stop) for t in trajectories if t.success)
    return {stop: StopSummary(number, successes[stop] / number) for stop, number in episodes.most_common()}


def error_counts(groups: Iterable[Group]) -> dict[str, int]:
    """Return the number of failed episodes by the type of their error, such as "TimeoutError", most frequent first."""
    kinds = Counter((t.error or "unknown").partition(":")[0][:60] for group in groups for t in group.errored)
    return dict(kinds.most_common())


def _label(trajectory: Trajectory, group: Group) -> str:
    """The name of a trajectory's task as `trajectories_by_task` says."""
    label = trajectory.task or f"{group.ticket.split}/{group.ticket.index}"
    return label if trajectory.agent == "agent" else f"{label}#{trajectory.agent}"


def _no_rewards(tasks: Sequence[Sequence[Trajectory]], envs: Sequence[str]) -> dict[str, dict[str, float]]:
    """By environment, 0 for each name of a reward that an episode of it has."""
    zeros: dict[str, dict[str, float]] = {env: {} for env in envs}
    for env, task in zip(envs, tasks, strict=True):
        zeros[env].update((name, 0.0) for t in task for turn in t.replies for name in turn.rewards)
    return zeros


def _reward_sums(turns: Sequence[Turn]) -> dict[str, float]:
    """The sum of each named reward over the turns that have it."""
    sums: dict[str, float] = defaultdict(float)
    for turn in turns:
        for name, value in turn.rewards.items():
            sums[name] += float(value)
    return sums


def _num_extensions(trajectory: Trajectory) -> int:
    """How often the policy got more turns from the agent `extension`."""
    answers = [turn.reply for turn in trajectory.turns if turn.role == ROLE and turn.reply is not None]
    return sum(map(asks_for_more, answers))


def _invalid_share(trajectory: Trajectory) -> float:
    """The share of an episode's replies that the environment could not act on."""
    turns = trajectory.replies
    return sum(not turn.valid for turn in turns) / len(turns) if turns else 0.0
