"""The figures of an evaluation, from played groups: one value per task, then means over tasks with intervals.

Errored episodes are left out of every figure, never scored 0.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, nan
from statistics import fmean

import numpy as np

from rl.evaluate.attempts import cost
from rl.evaluate.statistics import Interval, auc_at_k, cluster_bootstrap, pass_at_k, pass_hat_k, ratio_interval, wilson
from rl.evaluate.voting import Vote, cons_at_k
from rl.records import Group, Trajectory

Figures = Mapping[str, Sequence[float]]  # by name, one value per task that has it
Tasks = Mapping[str, Sequence[Trajectory]]

SHARE = Interval(0.0, 1.0)
SHARES = ("success", "invalid_mean", "pass_at/", "pass_hat/", "cons_at/", "auc_at/")  # probabilities, or their starts


@dataclass(frozen=True, slots=True)
class Ending:
    """The episodes that stopped for one reason, and the share of them that succeeded."""

    episodes: int
    success: float


def by_task(played: Sequence[Group]) -> dict[str, list[Trajectory]]:
    """Scored trajectories by task, in member order. The seats of a multi-agent task count as tasks of their own."""
    tasks: dict[str, list[Trajectory]] = {}

    def row(t: Trajectory, group: Group) -> list[Trajectory]:
        label = t.task or f"{group.ticket.split}/{group.ticket.index}"
        return tasks.setdefault(label if t.agent == "agent" else f"{label}#{t.agent}", [])

    for group in played:
        for trajectory in sorted(group.trajectories, key=lambda t: t.member):
            row(trajectory, group).append(trajectory)
        for errored in group.errored:
            row(errored, group)  # listed, though perhaps with nothing scored
    return tasks


def figures(tasks: Iterable[Sequence[Trajectory]], powers: Sequence[int], vote: Vote) -> Figures:
    """Every figure by name, as one value per task that has it; a task without scored samples has none."""
    found: dict[str, list[float]] = defaultdict(list)
    for task in tasks:
        if not task:
            continue
        success = [t.success for t in task]
        n, c = len(success), sum(success)
        spent = [cost(t) for t in task]
        found["success"].append(c / n)
        found["return_mean"].append(fmean(t.reward for t in task))
        found["turns_mean"].append(fmean(each.turns for each in spent))
        found["tokens_mean"].append(fmean(each.tokens for each in spent))
        found["invalid_mean"].append(fmean(_share_invalid(t) for t in task))
        votes = [vote(t) for t in task]
        for k in powers:
            if k <= n:
                found[f"pass_at/{k}"].append(pass_at_k(n, c, k))
                found[f"pass_hat/{k}"].append(pass_hat_k(n, c, k))
                found[f"cons_at/{k}"].append(cons_at_k(votes, success, k))
                found[f"auc_at/{k}"].append(auc_at_k(n, c, k))
        named: dict[str, list[float]] = defaultdict(list)
        for last in (t.turns[-1] for t in task if t.turns):
            for name, value in {**last.rewards, **last.metrics}.items():
                named[name].append(float(value))
        for name, values in named.items():
            found[f"metrics/{name}"].append(fmean(values))
    return found


def means(found: Figures) -> dict[str, float]:
    """The mean of each figure over its tasks; a figure with a value that is not finite has none."""
    return {name: fmean(values) for name, values in found.items() if all(map(isfinite, values))}


def interval(name: str, values: Sequence[float], samples: int, seed: int) -> Interval:
    """The figure's interval: Wilson's for passes and failures of one sample per task, else the bootstrap over tasks."""
    share = name.startswith(SHARES)
    if share and samples == 1 and name != "invalid_mean":
        return wilson(sum(values), len(values))
    return cluster_bootstrap(values, np.random.default_rng(seed), bounds=SHARE if share else None)


def per_solved(tasks: Tasks) -> dict[str, tuple[float | None, Interval]]:
    """What a success costs: all replies and all sampled tokens, failures included, by the number of successes.

    None where nothing was solved, or, for tokens, where the policy samples none.
    """
    scored = [task for task in tasks.values() if task]
    solved = [sum(t.success for t in task) for task in scored]
    found: dict[str, tuple[float | None, Interval]] = {}
    for name, place in (("turns_per_solved", 0), ("tokens_per_solved", 1)):
        spent = [sum(cost(t)[place] for t in task) for task in scored]
        if sum(solved) and sum(spent):
            found[name] = sum(spent) / sum(solved), ratio_interval(spent, solved)
        else:
            found[name] = None, Interval(nan, nan)
    return found


def endings(tasks: Tasks) -> dict[str, Ending]:
    """Why the scored episodes stopped, the most frequent reason first."""
    played = [t for task in tasks.values() for t in task]
    counts = Counter(str(t.stop) for t in played)
    won = Counter(str(t.stop) for t in played if t.success)
    return {stop: Ending(number, won[stop] / number) for stop, number in counts.most_common()}


def faults(played: Iterable[Group]) -> dict[str, int]:
    """Errored episodes by the kind of error, the most frequent first."""
    kinds = Counter((t.error or "unknown").partition(":")[0][:60] for group in played for t in group.errored)
    return dict(kinds.most_common())


def _share_invalid(trajectory: Trajectory) -> float:
    replies = trajectory.turns
    return sum(not turn.valid for turn in replies) / len(replies) if replies else 0.0
