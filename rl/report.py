"""What an evaluation found: built from played groups, kept as JSON, compared with an earlier result.

`rl.tables` prints it. Errored episodes are counted and left out of every figure, never scored 0.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from math import isfinite
from pathlib import Path
from statistics import fmean
from typing import Any, ClassVar

import numpy as np
from pydantic import ConfigDict, TypeAdapter, ValidationError

from rl.records import Group, Trajectory
from rl.stats import Interval, cluster_bootstrap, cons_at_k, mcnemar, pass_at_k, pass_hat_k, sign_flip, wilson

Vote = Callable[[Trajectory], Hashable]
Figures = Mapping[str, Sequence[float]]  # by name, one value per task that has it

SHARE = Interval(0.0, 1.0)
SHARES = ("success", "pass_at/", "pass_hat/", "cons_at/")  # figures, or starts of their names, that are probabilities


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over tasks and its 95 % interval. All three are None where nothing was scored."""

    mean: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class TaskRow:
    """The scored samples of one task: parallel lists in member order, empty if every sample errored."""

    task: str
    rewards: list[float | None]  # returns; None for one that is not a finite number
    success: list[bool]
    turns: list[int]
    stop: list[str]

    def __post_init__(self) -> None:
        """Refuse lists of different lengths."""
        lengths = {len(self.rewards), len(self.success), len(self.turns), len(self.stop)}
        if len(lengths) > 1:
            raise ValueError(f"task {self.task!r}: rewards, success, turns and stop differ in length")


@dataclass(frozen=True, slots=True)
class Report:
    """The figures of one evaluation. A mean is over tasks, which weigh the same; None where nothing was scored.

    `pass_at`, `pass_hat` and `cons_at` hold k = 1, 2, 4, ... up to `samples`; a task that lost samples to errors
    takes part only up to the k it has left. `intervals` holds 95 % intervals under `return_mean`, `pass_at/4`,
    `metrics/strict` and so on; one is missing where the tasks all agree and the figure has no bounds.
    """

    benchmark: str | None
    env: str
    policy: str
    episodes: int  # tasks played, each `samples` times
    samples: int
    seed: int
    success: Estimate
    return_mean: float | None
    pass_at: dict[int, float | None]
    pass_hat: dict[int, float | None]
    cons_at: dict[int, float | None]
    turns_mean: float | None
    tokens_mean: float | None  # sampled tokens of an episode
    errors: int  # errored episodes
    per_task: list[TaskRow]
    metrics: dict[str, float | None] = field(default_factory=dict)  # last turn's named rewards and metrics
    intervals: dict[str, Interval] = field(default_factory=dict)

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(allow_inf_nan=False)

    def __post_init__(self) -> None:
        """Refuse two rows of one task: they could not be paired."""
        seen: set[str] = set()
        for row in self.per_task:
            if row.task in seen:
                raise ValueError(f"task {row.task!r} has two rows")
            seen.add(row.task)

    @classmethod
    def from_groups(
        cls,
        groups: Iterable[Group],
        *,
        env: str,
        policy: str,
        seed: int,
        benchmark: str | None = None,
        vote: Vote | None = None,
    ) -> Report:
        """Score the groups, in any order; groups of the same task are one task with more samples.

        `vote` gives the answer that a trajectory casts for cons@k, or None; `final_reply` unless given. Intervals are
        Wilson's for a probability with one sample per task and the bootstrap over tasks otherwise, seeded by `seed`.
        """
        played = sorted(groups, key=lambda group: group.ticket.number)
        samples = max((group.ticket.size for group in played), default=1)
        tasks = _by_task(played)
        powers = [2**e for e in range(samples.bit_length())]
        figures = _figures(tasks.values(), powers, vote or final_reply)
        means = {name: fmean(values) for name, values in figures.items() if all(map(isfinite, values))}
        intervals = {name: _interval(name, figures[name], samples, seed) for name in means}
        intervals = {name: interval for name, interval in intervals.items() if all(map(isfinite, interval))}
        success = Estimate(means.get("success"), *intervals.pop("success", (None, None)))

        def at(name: str) -> dict[int, float | None]:
            return {k: means.get(f"{name}/{k}") for k in powers}

        return cls(
            benchmark=benchmark,
            env=env,
            policy=policy,
            episodes=len(played),
            samples=samples,
            seed=seed,
            success=success,
            return_mean=means.get("return_mean"),
            pass_at=at("pass_at"),
            pass_hat=at("pass_hat"),
            cons_at=at("cons_at"),
            turns_mean=means.get("turns_mean"),
            tokens_mean=means.get("tokens_mean"),
            errors=sum(len(group.errored) for group in played),
            per_task=[_row(task, trajectories) for task, trajectories in tasks.items()],
            metrics={n.removeprefix("metrics/"): means.get(n) for n in sorted(figures) if n.startswith("metrics/")},
            intervals=intervals,
        )

    @classmethod
    def from_json(cls, path: str | Path) -> Report:
        """Read what `to_json` wrote. Raises `ValueError`, one line with the file and what is wrong, or `OSError`."""
        try:
            return TypeAdapter(cls).validate_json(Path(path).read_bytes())
        except ValidationError as error:
            first = error.errors()[0]
            wrong = ".".join(map(str, first["loc"])), first["msg"].removeprefix("Value error, ")
            raise ValueError(f"{path}: not a result of rl.evaluate: {': '.join(filter(None, wrong))}") from None

    def to_json(self, path: str | Path) -> None:
        """Write the report, one line per task, so that readers see the whole file or none.

        Raises `OSError` naming `path` where it cannot be written.
        """
        target = Path(path)
        aside = target.with_name(f".{target.name}.{os.getpid()}.tmp")
        try:
            aside.write_text(_pretty(asdict(self)), encoding="utf-8")
            aside.replace(target)
        except OSError as error:
            with suppress(OSError):
                aside.unlink()
            raise OSError(error.errno, error.strerror, str(target)) from error


@dataclass(frozen=True, slots=True)
class Comparison:
    """How `new` differs from `old` on the tasks that both scored; differences of success in [-1, 1]."""

    new: str
    old: str
    difference: float
    low: float
    high: float
    p_value: float  # two-sided, of no difference
    test: str
    tasks: int  # paired
    unpaired: int  # scored in one of the two only
    gained: int  # paired tasks where `new` succeeds more often
    lost: int  # paired tasks where `new` succeeds less often


def compare(new: Report, old: Report) -> Comparison:
    """Pair two results by task and test them: exact McNemar for one sample per task, else sign flips of task means.

    Raises `ValueError` if environment, benchmark or seed differ, or no task was scored in both.
    """
    for name in ("env", "benchmark", "seed"):
        ours, theirs = getattr(new, name), getattr(old, name)
        if ours != theirs:
            raise ValueError(f"cannot compare: {name} is {ours!r} here and {theirs!r} in the earlier result")
    ours, theirs = _success_by_task(new), _success_by_task(old)
    paired = [task for task in ours if task in theirs]
    if not paired:
        raise ValueError(f"cannot compare: none of {len(ours)} scored tasks is among the {len(theirs)} earlier ones")
    differences = [fmean(ours[task]) - fmean(theirs[task]) for task in paired]
    gained, lost = sum(d > 0 for d in differences), sum(d < 0 for d in differences)
    single = all(len(ours[task]) == len(theirs[task]) == 1 for task in paired)
    rng = np.random.default_rng(new.seed)
    low, high = cluster_bootstrap(differences, rng, bounds=Interval(-1.0, 1.0))
    return Comparison(
        new=new.policy,
        old=old.policy,
        difference=fmean(differences),
        low=low,
        high=high,
        p_value=mcnemar(gained, lost) if single else sign_flip(differences, rng),
        test="exact McNemar" if single else "sign flips",
        tasks=len(paired),
        unpaired=len(ours.keys() ^ theirs.keys()),
        gained=gained,
        lost=lost,
    )


def final_reply(trajectory: Trajectory) -> str | None:
    """Vote with the text and tool calls of the last reply, spacing evened out; None for an empty one."""
    reply: Mapping[str, Any] = (trajectory.turns[-1].reply if trajectory.turns else None) or {}
    content = reply.get("content") or ""
    if not isinstance(content, str):
        content = " ".join(block.get("text", "") for block in content)
    calls = [f"{call['function']['name']} {call['function']['arguments']}" for call in reply.get("tool_calls") or ()]
    return " ".join(" ".join((content, *calls)).split()) or None


def _by_task(played: Sequence[Group]) -> dict[str, list[Trajectory]]:
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


def _figures(tasks: Iterable[Sequence[Trajectory]], powers: Sequence[int], vote: Vote) -> Figures:
    """Every figure by name, as one value per task that has it."""
    figures: dict[str, list[float]] = defaultdict(list)
    for task in tasks:
        if not task:
            continue
        success = [t.success for t in task]
        n, c = len(success), sum(success)
        figures["success"].append(c / n)
        figures["return_mean"].append(fmean(t.reward for t in task))
        figures["turns_mean"].append(fmean(len(t.turns) for t in task))
        figures["tokens_mean"].append(fmean(t.num_sampled for t in task))
        votes = [vote(t) for t in task]
        for k in powers:
            if k <= n:
                figures[f"pass_at/{k}"].append(pass_at_k(n, c, k))
                figures[f"pass_hat/{k}"].append(pass_hat_k(n, c, k))
                figures[f"cons_at/{k}"].append(cons_at_k(votes, success, k))
        named: dict[str, list[float]] = defaultdict(list)
        for last in (t.turns[-1] for t in task if t.turns):
            for name, value in {**last.rewards, **last.metrics}.items():
                named[name].append(float(value))
        for name, values in named.items():
            figures[f"metrics/{name}"].append(fmean(values))
    return figures


def _interval(name: str, values: Sequence[float], samples: int, seed: int) -> Interval:
    share = name.startswith(SHARES)
    if share and samples == 1:
        return wilson(sum(values), len(values))
    return cluster_bootstrap(values, np.random.default_rng(seed), bounds=SHARE if share else None)


def _row(task: str, trajectories: Sequence[Trajectory]) -> TaskRow:
    return TaskRow(
        task=task,
        rewards=[t.reward if isfinite(t.reward) else None for t in trajectories],
        success=[t.success for t in trajectories],
        turns=[len(t.turns) for t in trajectories],
        stop=[str(t.stop) for t in trajectories],
    )


def _success_by_task(report: Report) -> dict[str, list[bool]]:
    return {row.task: row.success for row in report.per_task if row.success}


def _pretty(report: dict[str, Any]) -> str:
    """JSON with one line per key and one per task."""
    rows = ",\n    ".join(json.dumps(row, allow_nan=False) for row in report.pop("per_task"))
    lines = [f"  {json.dumps(key)}: {json.dumps(value, allow_nan=False)}" for key, value in report.items()]
    return "{\n" + ",\n".join([*lines, f'  "per_task": [\n    {rows}\n  ]']) + "\n}\n"
