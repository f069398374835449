"""Tests whether two reports differ: paired by task, and per environment for a benchmark of several environments."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any

import numpy as np

from envs.env import SPLITS
from rl.evaluate.report import Report
from rl.evaluate.runner import with_usual_names
from rl.evaluate.statistics import Interval, cluster_bootstrap, holm, mcnemar, sign_flip


@dataclass(frozen=True, slots=True)
class Comparison:
    """How policy `new` differs from `old` on the tasks that both reports scored.

    `difference` is that of the success rates, in [-1, 1], with the 95 % interval `low` to `high`. `p_value` is
    two-sided, of the null hypothesis that there is no difference; `test` names the test. `gains` and `losses` count the
    paired tasks that `new` solves more or less often. `changes` names what else differs than the policy, as far as both
    reports say how they sampled. `by_env` compares the environments of a benchmark one by one;
    their p-values are adjusted together (Holm).
    """

    new: str
    old: str
    difference: float
    low: float
    high: float
    p_value: float
    test: str
    paired_tasks: int
    unpaired_tasks: int  # scored in one of the two reports only
    gains: int
    losses: int
    errors: tuple[int, int] = (0, 0)  # episodes that were left out in the new and in the old report
    by_env: dict[str, Comparison] = field(default_factory=dict)
    changes: list[str] = field(default_factory=list)  # in how replies were sampled and prompts written, one each


def compare(new: Report, old: Report) -> Comparison:
    """Pair two reports by task and test the difference of their success rates.

    The test is exact McNemar for one sample per task on both sides, else the sign-flip test of the task means. Raises
    `ValueError` if the reports cannot be compared (`check_comparable`) or share no scored task.
    """
    check_comparable(EvaluationSetup.from_report(new), EvaluationSetup.from_report(old))
    new_success, old_success = _success_by_task(new), _success_by_task(old)
    pairs = [(samples, old_success[task]) for task, samples in new_success.items() if task in old_success]
    if not pairs:
        counts = f"none of {len(new_success)} scored tasks is among the {len(old_success)} earlier ones"
        raise ValueError(f"cannot compare: {counts}")
    differences = [fmean(ours) - fmean(theirs) for ours, theirs in pairs]
    gains, losses = sum(d > 0 for d in differences), sum(d < 0 for d in differences)
    is_single = all(len(ours) == len(theirs) == 1 for ours, theirs in pairs)
    rng = np.random.default_rng(new.seed)
    low, high = cluster_bootstrap(differences, rng, bounds=Interval(-1.0, 1.0))
    return Comparison(
        new=_name(new),
        old=_name(old),
        difference=fmean(differences),
        low=low,
        high=high,
        p_value=mcnemar(gains, losses) if is_single else sign_flip(differences, rng),
        test="exact McNemar" if is_single else "sign flips",
        paired_tasks=len(pairs),
        unpaired_tasks=len(new_success.keys() ^ old_success.keys()),
        gains=gains,
        losses=losses,
        errors=(new.errors, old.errors),
        by_env=_compare_envs(new, old),
        changes=_changes(new.sampling, old.sampling) if new.sampling and old.sampling else [],
    )


@dataclass(frozen=True, slots=True)
class EvaluationSetup:
    """The tasks and the seed of an evaluation, known before it is played.

    `env` is None for a benchmark, `benchmark` for a single environment. `digest` is a hash of the tasks of a benchmark
    and `env_digests` holds one for each of its environments. Optional fields are None if they are not stored, as in
    reports of older releases.
    """

    env: str | None
    benchmark: str | None
    seed: int
    env_args: Mapping[str, Any] | None = None
    digest: str | None = None
    env_digests: Mapping[str, str | None] = field(default_factory=dict)
    opponents: Sequence[str] | None = None  # in the other seats; [] for the policy itself, None for one seat
    split: str | None = None  # of the tasks of a single environment

    @classmethod
    def from_report(cls, report: Report) -> EvaluationSetup:
        """Return the setup that a report stores."""
        digests = {name: part.digest for name, part in report.envs.items()}
        splits = {row.task.partition("/")[0] for row in report.per_task}  # in the names of tasks, such as test/17
        split = splits.pop() if len(splits) == 1 and splits <= {*SPLITS} else None
        parts = report.env_args, report.digest, digests, report.opponents, split
        return cls(report.env, report.benchmark, report.seed, *parts)


def check_comparable(new: EvaluationSetup, old: EvaluationSetup) -> None:
    """Raise `ValueError` unless environment, arguments, opponents, benchmark, split, tasks and seed are the same."""
    is_split_known = new.split is not None and old.split is not None
    for name in ("env", "benchmark", "seed", *(["split"] if is_split_known else [])):
        earlier = getattr(old, name)
        remedy = f"add --{name} {earlier}" if earlier is not None else f"leave out --{name}"
        _check_equal(name, getattr(new, name), earlier, remedy)
    _check_equal("the opponents", _opponents(new), _opponents(old))
    if new.env_args is not None and old.env_args is not None:
        for key in sorted({*new.env_args, *old.env_args}):
            default = "short" if key == "style" else "default"  # reports of older releases name no style
            earlier = old.env_args.get(key, default)
            remedy = f"add --env-arg {key}={earlier}" if earlier != "default" else f"leave out --env-arg {key}"
            _check_equal(f"env argument {key}", new.env_args.get(key, default), earlier, remedy)
    if new.digest == old.digest:
        return
    for name in {**new.env_digests, **old.env_digests}:
        if name not in new.env_digests or name not in old.env_digests:
            side = "here" if name not in new.env_digests else "in the earlier result"
            raise ValueError(f"cannot compare: {name} of benchmark {new.benchmark} is left out {side}")
        if new.env_digests[name] != old.env_digests[name]:
            raise ValueError(f"cannot compare: {name} of benchmark {new.benchmark} has other tasks than it had")
    _check_equal("the digest of the tasks", new.digest, old.digest)


def _changes(new: Mapping[str, Any], old: Mapping[str, Any]) -> list[str]:
    """What differs between two records of sampling, as text. Older ones have all fields of requests in `api_args`."""
    new, old = with_usual_names(new), with_usual_names(old)
    lines = []
    for name in {**new, **old}:
        here, there = new.get(name), old.get(name)
        if here == there:
            continue
        if name == "system":
            sides = "on both sides, but another" if here and there else "here only" if here else "there only"
            lines.append(f"a system prompt {sides}")
        else:
            none = "without a limit" if name == "max_tokens" else "not set"
            lines.append(f"{name.replace('_', ' ')} {_text(here, none)} here, {_text(there, none)} there")
    return lines


def _text(value: object, none: str) -> str:
    if isinstance(value, Mapping):
        return " ".join(f"{key}={json.dumps(one)}" for key, one in value.items())
    return none if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _opponents(setup: EvaluationSetup) -> str:
    return "one seat" if setup.opponents is None else ", ".join(setup.opponents) or "the policy itself"


def _compare_envs(new: Report, old: Report) -> dict[str, Comparison]:
    """Compare each environment that has scored tasks in both reports; p-values are adjusted together."""
    comparisons: dict[str, Comparison] = {}
    for name in new.envs:
        if name in old.envs:
            new_part, old_part = new.envs[name], old.envs[name]
            if _success_by_task(new_part).keys() & _success_by_task(old_part).keys():
                comparisons[name] = compare(new_part, old_part)
    p_values = holm([comparison.p_value for comparison in comparisons.values()])
    return {
        name: replace(comparison, p_value=p)
        for (name, comparison), p in zip(comparisons.items(), p_values, strict=True)
    }


def _check_equal(name: str, new: object, old: object, remedy: str = "") -> None:
    if new != old:
        end = f"; {remedy}, or compare with another result" if remedy else ""
        raise ValueError(f"cannot compare: {name} is {new!r} here and {old!r} in the earlier result{end}")


def _name(report: Report) -> str:
    """The policy of a report, with its strategy."""
    return f"{report.policy} by {report.strategy.strategy}" if report.strategy else report.policy


def _success_by_task(report: Report) -> dict[str, list[bool]]:
    """The success of each sample, by task; without tasks that have no scored sample."""
    return {row.task: row.success for row in report.per_task if row.success}
