"""What an evaluation found: built from played groups and kept as JSON.

`rl.evaluate.console` prints it, `rl.evaluate.comparison` pairs it with an earlier one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from math import isfinite, isnan
from pathlib import Path
from statistics import fmean
from typing import Any, ClassVar

from pydantic import ConfigDict, TypeAdapter, ValidationError

from rl.evaluate.attempts import cost
from rl.evaluate.metrics import Ending, by_task, endings, faults, figures, interval, means, per_solved
from rl.evaluate.statistics import Interval
from rl.evaluate.strategies.gains import Gain
from rl.evaluate.voting import Vote, final_reply
from rl.records import Group, Trajectory


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

    `pass_at`, `pass_hat`, `cons_at` and `auc_at` hold k = 1, 2, 4, ... up to `samples`, `avg_at` only `samples`; a task
    that lost samples to errors takes part only up to the k it has left. `intervals` holds 95 % intervals under
    `return_mean`, `pass_at/4`, `metrics/strict` and so on; one is missing where the tasks all agree and the figure has
    no bounds, and its high end is None where the data set none. With a strategy, turns and tokens are all it took.

    A benchmark's report has `env` None, the tasks of all environments as its own, one report for each in `envs`, and
    in `over_envs` the mean of their success rates.
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
    metrics: dict[str, float | None] = field(default_factory=dict)  # last turn's named rewards and metrics
    intervals: dict[str, tuple[float, float | None]] = field(default_factory=dict)
    avg_at: dict[int, float | None] = field(default_factory=dict)
    auc_at: dict[int, float | None] = field(default_factory=dict)
    invalid_mean: float | None = None  # the share of an episode's replies that the environment could not act on
    turns_per_solved: float | None = None  # all replies, by the number of successes
    tokens_per_solved: float | None = None
    stops: dict[str, Ending] = field(default_factory=dict)
    faults: dict[str, int] = field(default_factory=dict)  # errored episodes by kind
    env_args: dict[str, Any] | None = None  # None: not on record
    digest: str | None = None  # of a benchmark's tasks, or of its part
    envs: dict[str, Report] = field(default_factory=dict)
    over_envs: Estimate | None = None
    left_out: dict[str, str] = field(default_factory=dict)  # of a benchmark, and why
    strategy: Gain | None = None  # a test-time strategy, and what it changed

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
        env: str | None,
        policy: str,
        seed: int,
        benchmark: str | None = None,
        vote: Vote = final_reply,
        **known: Any,
    ) -> Report:
        """Score the groups, in any order; groups of the same task are one task with more samples.

        `vote` gives the answer that a trajectory casts for cons@k, or None. Intervals are Wilson's for a probability
        with one sample per task and the bootstrap over tasks otherwise, seeded by `seed`. `known` are further fields,
        such as `env_args`.
        """
        played = sorted(groups, key=lambda group: group.ticket.number)
        samples = max((group.ticket.size for group in played), default=1)
        tasks = by_task(played)
        powers = [2**e for e in range(samples.bit_length())]
        found = figures(tasks.values(), powers, vote)
        mean = means(found)
        spread = {name: interval(name, found[name], samples, seed) for name in mean}
        solved = per_solved(tasks)
        spread |= {name: ends for name, (_, ends) in solved.items()}
        success = Estimate(mean.get("success"), *spread.pop("success", (None, None)))

        def at(name: str) -> dict[int, float | None]:
            return {k: mean.get(f"{name}/{k}") for k in powers}

        complete = [fmean(t.success for t in task) for task in tasks.values() if len(task) >= samples]
        return cls(
            benchmark=benchmark,
            env=env,
            policy=policy,
            episodes=len(played),
            samples=samples,
            seed=seed,
            success=success,
            return_mean=mean.get("return_mean"),
            pass_at=at("pass_at"),
            pass_hat=at("pass_hat"),
            cons_at=at("cons_at"),
            turns_mean=mean.get("turns_mean"),
            tokens_mean=mean.get("tokens_mean"),
            errors=sum(len(group.errored) for group in played),
            per_task=[_row(task, trajectories) for task, trajectories in tasks.items()],
            metrics={n.removeprefix("metrics/"): mean.get(n) for n in sorted(found) if n.startswith("metrics/")},
            intervals=_stored(spread),
            avg_at={samples: fmean(complete) if complete else None},
            auc_at=at("auc_at"),
            invalid_mean=mean.get("invalid_mean"),
            **{name: value for name, (value, _) in solved.items()},  # type: ignore[arg-type]
            stops=endings(tasks),
            faults=faults(played),
            **known,
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
            aside.write_text(_pretty(asdict(self)) + "\n", encoding="utf-8")
            aside.replace(target)
        except OSError as error:
            with suppress(OSError):
                aside.unlink()
            raise OSError(error.errno, error.strerror, str(target)) from error


def _stored(spread: Mapping[str, Interval]) -> dict[str, tuple[float, float | None]]:
    """The intervals that say anything; a high end at infinity becomes None."""
    known = {name: (low, high) for name, (low, high) in spread.items() if isfinite(low) and not isnan(high)}
    return {name: (low, high if isfinite(high) else None) for name, (low, high) in known.items()}


def _row(task: str, trajectories: Iterable[Trajectory]) -> TaskRow:
    played = list(trajectories)
    return TaskRow(
        task=task,
        rewards=[t.reward if isfinite(t.reward) else None for t in played],
        success=[t.success for t in played],
        turns=[cost(t).turns for t in played],
        stop=[str(t.stop) for t in played],
    )


def _pretty(report: dict[str, Any], indent: str = "") -> str:
    """JSON with one line per key and one per task, also in the reports inside."""
    inner = indent + "  "
    lines = []
    for key, value in report.items():
        if key == "per_task" or (key == "envs" and value):
            continue
        lines.append(f"{inner}{json.dumps(key)}: {json.dumps(value, allow_nan=False)}")
    if report["envs"]:
        parts = [f"{inner}  {json.dumps(name)}: {_pretty(part, inner + '  ')}" for name, part in report["envs"].items()]
        lines.append(f'{inner}"envs": {{\n' + ",\n".join(parts) + f"\n{inner}}}")
    rows = f",\n{inner}  ".join(json.dumps(row, allow_nan=False) for row in report["per_task"])
    lines.append(f'{inner}"per_task": [\n{inner}  {rows}\n{inner}]')
    return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
