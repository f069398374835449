"""The result of an evaluation: computed from groups, stored as JSON.

`rl.evaluate.console` prints a report, `rl.evaluate.comparison` compares two of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import isfinite, isnan
from pathlib import Path
from statistics import fmean
from typing import Any, ClassVar

from pydantic import ConfigDict, TypeAdapter, ValidationError

from envs.types import Stop
from rl import checksums
from rl.evaluate.attempts import cost
from rl.evaluate.diversity import Diversity, of_samples
from rl.evaluate.metrics import (
    StopSummary,
    cost_per_success,
    error_counts,
    last_turn_names,
    metric_interval,
    metric_means,
    stop_summaries,
    success_counting_errors,
    task_splits,
    task_values,
    trajectories_by_task,
)
from rl.evaluate.result_files import write_result
from rl.evaluate.seats.results import SeatResults
from rl.evaluate.statistics import NO_ESTIMATE, Estimate, Interval
from rl.evaluate.strategies.gains import Gain
from rl.evaluate.voting import Vote, final_reply
from rl.records import Group, Trajectory

_DIGEST = re.compile(rb'\{\n  "sha256": "([0-9a-f]{64})",\n')  # the beginning of a file of `Report.to_json`


@dataclass(frozen=True, slots=True)
class TaskRow:
    """The scored samples of one task as parallel lists in member order, empty if every sample failed."""

    task: str
    rewards: list[float | None]  # returns; None for one that is not a finite number
    success: list[bool]
    turns: list[int]
    stop: list[str]

    def __post_init__(self) -> None:
        """Raise `ValueError` if the lists differ in length."""
        lengths = {len(self.rewards), len(self.success), len(self.turns), len(self.stop)}
        if len(lengths) > 1:
            raise ValueError(f"task {self.task!r}: rewards, success, turns and stop differ in length")


@dataclass(frozen=True, slots=True)
class Report:
    """The metrics of one evaluation. Means are over tasks, which have the same weight; None if nothing was scored.

    `pass_at`, `pass_hat`, `cons_at` and `auc_at` are by k = 1, 2, 4, ... up to `samples`, `avg_at` only at `samples`. A
    task that lost samples to errors, or never had as many, contributes up to the k that it has: `tasks_at` counts the
    tasks by k, as rows of `per_task`, where each seat of a task has its own. `intervals` holds 95 % intervals by the
    name of the metric, such as `return_mean`, `pass_at/4` or `metrics/strict`. A metric without bounds whose tasks all
    have the same value has no interval; a high end of None means that the data set no upper bound. With a test-time
    strategy, turns and tokens are those of all episodes of an attempt.

    The report of a benchmark has `env` None and the tasks of all environments. `envs` holds a report per environment
    and `over_envs` the mean of their success rates, `over_envs_counting_errors` with errored episodes as failures.
    """

    benchmark: str | None
    env: str | None
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
    success_counting_errors: Estimate = NO_ESTIMATE  # success with errored episodes as failures
    policy_faults: int = 0  # scored episodes that ended because their replies make the environment fail
    metrics: dict[str, float | None] = field(default_factory=dict)  # named rewards of an episode; metrics of its end
    last_turn: list[str] = field(default_factory=list)  # names in `metrics` of last turns, where episodes have several
    intervals: dict[str, tuple[float, float | None]] = field(default_factory=dict)
    avg_at: dict[int, float | None] = field(default_factory=dict)
    auc_at: dict[int, float | None] = field(default_factory=dict)
    tasks_at: dict[int, int] = field(default_factory=dict)  # tasks with at least k scored samples; {} in older reports
    invalid_mean: float | None = None  # share of an episode's replies that the environment could not act on
    turns_per_solved: float | None = None  # all replies divided by the number of successes
    tokens_per_solved: float | None = None  # all sampled tokens divided by the number of successes
    stops: dict[str, StopSummary] = field(default_factory=dict)  # by reason
    faults: dict[str, int] = field(default_factory=dict)  # errored episodes by type of error
    env_args: dict[str, Any] | None = None  # that differ from the defaults; None in reports of older releases
    digest: str | None = None  # of the tasks of a benchmark, or of one of its environments
    envs: dict[str, Report] = field(default_factory=dict)
    over_envs: Estimate | None = None
    over_envs_counting_errors: Estimate | None = None
    left_out: dict[str, str] = field(default_factory=dict)  # a benchmark's missing environments and the reasons
    strategy: Gain | None = None  # of the test-time strategy
    opponents: list[str] | None = None  # who played the other seats; [] if the policy played all; None without seats
    seats: SeatResults | None = None  # the results by seat
    diversity: dict[str, Diversity] = field(default_factory=dict)  # of what is compared: samples, players, seats
    sampling: dict[str, Any] | None = None  # of the whole: `runner.sampling_record`; None without, or in older reports

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(allow_inf_nan=False)

    def __post_init__(self) -> None:
        """Raise `ValueError` if a task has two rows: such a report cannot be paired with another."""
        tasks: set[str] = set()
        for row in self.per_task:
            if row.task in tasks:
                raise ValueError(f"task {row.task!r} has two rows")
            tasks.add(row.task)

    @property
    def is_complete(self) -> bool:
        """Whether every task has all its samples scored."""
        if self.seats:  # a seat of a task has samples against each opponent
            return not self.errors
        return all(len(row.success) >= self.samples for row in self.per_task)

    @classmethod
    def from_groups(
        cls,
        groups: Iterable[Group],
        *,
        env: str | None,
        policy: str,
        seed: int,
        benchmark: str | None = None,
        vote: Vote = final_reply,
        **fields: Any,
    ) -> Report:
        """Compute the report of groups, whose order does not matter.

        Groups of the same task count as one task with more samples. Intervals are Wilson's for probabilities with one
        sample per task, else the bootstrap over tasks.

        Args:
            groups: The groups of the evaluation.
            env: Id of the environment; None for a benchmark.
            policy: Name of the policy.
            seed: Seed of the evaluation, which also seeds the bootstrap.
            benchmark: Name of the benchmark.
            vote: Returns the answer of a trajectory for cons@k, None for no answer.
            fields: Further fields of the report, such as `env_args`.
        """
        ordered_groups = sorted(groups, key=lambda group: group.ticket.number)
        samples = max((group.ticket.size for group in ordered_groups), default=1)
        tasks = trajectories_by_task(ordered_groups)
        counts = [2**e for e in range(samples.bit_length())]
        splits = task_splits(ordered_groups)
        values = task_values(tasks.values(), counts, vote, [splits[task] for task in tasks])
        means = metric_means(values)
        intervals = {name: metric_interval(name, values[name], samples, seed) for name in means}
        costs = cost_per_success(tasks)
        intervals |= {name: interval for name, (_, interval) in costs.items()}
        success = Estimate(means.get("success"), *intervals.pop("success", (None, None)))
        stops = stop_summaries(tasks)
        complete = [fmean(t.success for t in task) for task in tasks.values() if len(task) >= samples]
        return cls(
            benchmark=benchmark,
            env=env,
            policy=policy,
            episodes=len(ordered_groups),
            samples=samples,
            seed=seed,
            success=success,
            return_mean=means.get("return_mean"),
            pass_at=_by_count(means, counts, "pass_at"),
            pass_hat=_by_count(means, counts, "pass_hat"),
            cons_at=_by_count(means, counts, "cons_at"),
            turns_mean=means.get("turns_mean"),
            tokens_mean=means.get("tokens_mean"),
            errors=sum(len(group.errored) for group in ordered_groups),
            per_task=[_row(task, trajectories) for task, trajectories in tasks.items()],
            metrics={n.removeprefix("metrics/"): means.get(n) for n in sorted(values) if n.startswith("metrics/")},
            last_turn=last_turn_names(tasks.values()),
            intervals=_finite_intervals(intervals),
            avg_at={samples: fmean(complete) if complete else None},
            auc_at=_by_count(means, counts, "auc_at"),
            tasks_at={k: sum(len(task) >= k for task in tasks.values()) for k in counts},
            invalid_mean=means.get("invalid_mean"),
            **{name: ratio for name, (ratio, _) in costs.items()},  # type: ignore[arg-type]
            stops=stops,
            success_counting_errors=_estimate_counting_errors(ordered_groups, samples, seed),
            policy_faults=stops[Stop.POLICY_FAULT].episodes if Stop.POLICY_FAULT in stops else 0,
            faults=error_counts(ordered_groups),
            diversity=of_samples(tasks, samples, seed),
            **fields,
        )

    @classmethod
    def from_json(cls, path: str | Path) -> Report:
        """Read a file of `to_json`.

        Raises `OSError` if it cannot be read, and `ValueError` with one line about its first fault if it is no report
        or was changed since it was written. A file without a digest is taken as it is.
        """
        content = checksums.read_file(Path(path))
        if (match := _DIGEST.match(content)) and match[1].decode() != checksums.digest(b"{\n" + content[match.end() :]):
            raise ValueError(
                f'{path}: changed after it was written: its "sha256" is wrong (delete that line to use it)'
            )
        try:
            return TypeAdapter(cls).validate_json(content)
        except ValidationError as error:
            first = error.errors()[0]
            fault = ".".join(map(str, first["loc"])), first["msg"].removeprefix("Value error, ")
            raise ValueError(f"{path}: not a result of rl.evaluate: {': '.join(filter(None, fault))}") from None

    def to_json(self, path: str | Path) -> None:
        """Write the report with one line per task, as `result_files.write_result` does, whose errors it raises.

        Its first key, "sha256", is the digest of the file without that line.
        """
        text = _to_text(asdict(self)) + "\n"
        mark = json.dumps({"sha256": checksums.digest(text.encode())})[1:-1]
        write_result(path, f"{{\n  {mark},\n{text.removeprefix('{' + chr(10))}")


def _by_count(means: Mapping[str, float], counts: Sequence[int], name: str) -> dict[int, float | None]:
    return {k: means.get(f"{name}/{k}") for k in counts}


def _estimate_counting_errors(groups: Sequence[Group], samples: int, seed: int) -> Estimate:
    rates = success_counting_errors(groups)
    return Estimate(fmean(rates), *metric_interval("success", rates, samples, seed)) if rates else NO_ESTIMATE


def _finite_intervals(intervals: Mapping[str, Interval]) -> dict[str, tuple[float, float | None]]:
    """The intervals for JSON: a high end of infinity becomes None, an interval of nan is left out."""
    finite = {name: (low, high) for name, (low, high) in intervals.items() if isfinite(low) and not isnan(high)}
    return {name: (low, high if isfinite(high) else None) for name, (low, high) in finite.items()}


def _row(task: str, trajectories: Sequence[Trajectory]) -> TaskRow:
    return TaskRow(
        task=task,
        rewards=[t.reward if isfinite(t.reward) else None for t in trajectories],
        success=[t.success for t in trajectories],
        turns=[cost(t).turns for t in trajectories],
        stop=[str(t.stop) for t in trajectories],
    )


def _to_text(report: dict[str, Any], indent: str = "") -> str:
    """JSON with one line per key and one per task, also in the reports of a benchmark's environments."""
    inner = indent + "  "
    lines = []
    for key, value in report.items():
        if key == "per_task" or (key == "envs" and value):
            continue
        lines.append(f"{inner}{json.dumps(key)}: {json.dumps(value, allow_nan=False)}")
    if report["envs"]:
        parts = [
            f"{inner}  {json.dumps(name)}: {_to_text(part, inner + '  ')}" for name, part in report["envs"].items()
        ]
        lines.append(f'{inner}"envs": {{\n' + ",\n".join(parts) + f"\n{inner}}}")
    rows = f",\n{inner}  ".join(json.dumps(row, allow_nan=False) for row in report["per_task"])
    lines.append(f'{inner}"per_task": [\n{inner}  {rows}\n{inner}]')
    return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
