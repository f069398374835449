"""Whether two results differ: paired by task, tested, and by environment where a benchmark has several."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any

import numpy as np

from rl.evaluate.report import Report
from rl.evaluate.statistics import Interval, cluster_bootstrap, holm, mcnemar, sign_flip


@dataclass(frozen=True, slots=True)
class Comparison:
    """How `new` differs from `old` on the tasks that both scored; differences of success in [-1, 1].

    `by_env` compares a benchmark's environments one by one; their p-values are adjusted together (Holm).
    """

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
    by_env: dict[str, Comparison] = field(default_factory=dict)


def compare(new: Report, old: Report) -> Comparison:
    """Pair two results by task and test them: exact McNemar for one sample per task, else sign flips of task means.

    Raises `ValueError` if they cannot be compared (`check_comparable`) or no task was scored in both.
    """
    check_comparable(Played.of(new), Played.of(old))
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
        new=_name(new),
        old=_name(old),
        difference=fmean(differences),
        low=low,
        high=high,
        p_value=mcnemar(gained, lost) if single else sign_flip(differences, rng),
        test="exact McNemar" if single else "sign flips",
        tasks=len(paired),
        unpaired=len(ours.keys() ^ theirs.keys()),
        gained=gained,
        lost=lost,
        by_env=_by_env(new, old),
    )


@dataclass(frozen=True, slots=True)
class Played:
    """On what a result was or will be found. None where that is not on record, as in results of an older release."""

    env: str | None
    benchmark: str | None
    seed: int
    env_args: Mapping[str, Any] | None = None
    digest: str | None = None
    parts: Mapping[str, str | None] = field(default_factory=dict)  # a benchmark's environments and their digests

    @classmethod
    def of(cls, report: Report) -> Played:
        """What a report says of itself."""
        parts = {name: part.digest for name, part in report.envs.items()}
        return cls(report.env, report.benchmark, report.seed, report.env_args, report.digest, parts)


def check_comparable(ours: Played, theirs: Played) -> None:
    """Raise `ValueError` if environment, its arguments, benchmark, its tasks or the seed differ."""
    for name in ("env", "benchmark", "seed"):
        _same(name, getattr(ours, name), getattr(theirs, name))
    if ours.env_args is not None and theirs.env_args is not None:
        for key in sorted({*ours.env_args, *theirs.env_args}):
            _same(f"env argument {key}", ours.env_args.get(key, "default"), theirs.env_args.get(key, "default"))
    if ours.digest == theirs.digest:
        return
    for name in {**ours.parts, **theirs.parts}:
        if name not in ours.parts or name not in theirs.parts:
            side = "here" if name not in ours.parts else "in the earlier result"
            raise ValueError(f"cannot compare: {name} of benchmark {ours.benchmark} is left out {side}")
        if ours.parts[name] != theirs.parts[name]:
            raise ValueError(f"cannot compare: {name} of benchmark {ours.benchmark} has other tasks than it had")
    _same("the digest of the tasks", ours.digest, theirs.digest)


def _by_env(new: Report, old: Report) -> dict[str, Comparison]:
    """Each environment's comparison, with the p-values adjusted; without those that share no scored task."""
    found: dict[str, Comparison] = {}
    for name in new.envs:
        if name in old.envs:
            ours, theirs = new.envs[name], old.envs[name]
            if _success_by_task(ours).keys() & _success_by_task(theirs).keys():
                found[name] = compare(ours, theirs)
    adjusted = holm([each.p_value for each in found.values()])
    return {name: replace(each, p_value=p) for (name, each), p in zip(found.items(), adjusted, strict=True)}


def _same(name: str, ours: object, theirs: object) -> None:
    if ours != theirs:
        raise ValueError(f"cannot compare: {name} is {ours!r} here and {theirs!r} in the earlier result")


def _name(report: Report) -> str:
    return f"{report.policy} by {report.strategy.strategy}" if report.strategy else report.policy


def _success_by_task(report: Report) -> dict[str, list[bool]]:
    return {row.task: row.success for row in report.per_task if row.success}
