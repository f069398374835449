"""What an evaluation plays: a split of one environment, or a benchmark of several environments."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import gymnasium

import envs
from envs import benchmarks
from envs.exits import close_env, closing_env, containment
from rl.evaluate.comparison import EvaluationSetup
from rl.evaluate.metrics import trajectories_by_task
from rl.evaluate.report import Report
from rl.evaluate.runner import count_tasks, tickets
from rl.evaluate.statistics import Estimate, Interval, mean_interval
from rl.evaluate.strategies import Strategy, format_spec
from rl.evaluate.strategies.gains import Gain
from rl.evaluate.voting import Vote, vote_function
from rl.records import Group, Ticket, Trajectory
from rl.spec_paths import as_typed

EPISODES = 200  # default number of tasks of an environment


@dataclass(frozen=True)
class TargetPart:
    """Some tasks of one environment.

    `split` is the split of their tickets and `indices` are their indices in it. `vote` reads the answer of an episode.
    `arguments` are the environment's arguments that differ from the defaults. `digest` is that of the tasks, None
    unless they belong to a benchmark.
    """

    env: str
    split: str
    indices: Sequence[int]
    vote: Vote
    arguments: Mapping[str, Any] = field(default_factory=dict)
    digest: str | None = None


@dataclass(frozen=True)
class EvaluationTarget:
    """The tasks to evaluate on: one part for an environment, any number for a benchmark.

    It creates the environment, selects the tickets and computes the report. `left_out` holds the environments of a
    benchmark that cannot be played here, with the reasons. `most_turns` are those of an episode, None if an environment
    does not say.
    """

    make_env: Callable[[], gymnasium.Env]
    parts: Mapping[str, TargetPart]
    benchmark: str | None = None
    digest: str | None = None
    left_out: Mapping[str, str] = field(default_factory=dict)
    most_turns: int | None = None

    @classmethod
    def from_env(cls, spec: str, env_args: Sequence[str], split: str) -> EvaluationTarget:
        """Return a split of the environment named by `spec`; `env_args` are `KEY=VALUE` texts.

        Raises `ValueError` for an environment without tasks or a wrong argument.
        """
        try:
            entry = envs.entry(spec)
            arguments = envs.arguments(env_args, entry, "--env-arg")
            make_env = partial(envs.make, spec, **arguments)
            with containment(f"--env {spec}"), closing_env(make_env()) as env:
                name = env.spec.id if env.spec else as_typed(spec)
                indices = range(count_tasks(env, split))
                part = TargetPart(name, split, indices, vote_function(env), _non_default(arguments, entry))
                most_turns = _max_turns(env)
        except gymnasium.error.Error as error:  # the environment lacks a dependency
            raise ValueError(f"--env {spec}: {error}") from error
        return cls(make_env, {name: part}, most_turns=most_turns)

    @classmethod
    def from_benchmark(cls, name: str) -> EvaluationTarget:
        """Return the environments of a benchmark that can be played here.

        Raises `ValueError` for an unknown benchmark, or if its tasks are not those that it was defined by.
        """
        benchmark = benchmarks.load(name)
        suite = benchmark.make()
        parts, turns = {}, []
        try:
            for part in benchmark.parts:
                entry = part.entry
                member = suite.member(entry.name)
                vote = vote_function(member)
                turns.append(_max_turns(member))
                env_entry = envs.entry(entry.env)
                arguments = _non_default(envs.arguments(entry.env_arguments, env_entry), env_entry)
                parts[entry.name] = TargetPart(entry.env, entry.label, part.indices, vote, arguments, part.digest)
        finally:
            close_env(suite)
        most_turns = None if None in turns else max(filter(None, turns), default=None)
        return cls(benchmark.make, parts, name, benchmark.digest, benchmark.left_out, most_turns)

    def setup(self, seed: int) -> EvaluationSetup:
        """Return what an earlier result must agree in to be compared: environment, arguments, tasks and this seed.

        It is known before the evaluation is played.
        """
        if self.benchmark:
            digests = {name: part.digest for name, part in self.parts.items()}
            return EvaluationSetup(None, self.benchmark, seed, None, self.digest, digests)
        (part,) = self.parts.values()
        return EvaluationSetup(part.env, None, seed, part.arguments, split=part.split)

    @property
    def split(self) -> str:
        """The split of an environment; "" for a benchmark, whose tasks have digests of their own."""
        return "" if self.benchmark else next(iter(self.parts.values())).split

    def tickets(self, episodes: int | None, samples: int, seed: int) -> list[Ticket]:
        """Return one ticket of `samples` episodes per task, with at most `episodes` tasks of each environment.

        `seed` chooses the tasks and seeds their episodes. For None the limit is `EPISODES` for an environment, and
        there is no limit for a benchmark.
        """
        selection: list[Ticket] = []
        for part in self.parts.values():
            limit = episodes or (len(part.indices) if self.benchmark else EPISODES)
            for ticket in tickets(len(part.indices), limit, samples, seed, part.split):
                selection.append(replace(ticket, number=len(selection), index=part.indices[ticket.index]))
        return selection

    def env_name(self, group: Group) -> str:
        """Return the name of the environment that a group was played in."""
        return next(part.env for part in self.parts.values() if part.split == group.ticket.split)

    def shortage(self, episodes: int | None) -> str:
        """Return a line that names the environments with fewer tasks than `episodes` and their number, "" for none."""
        parts = [part for part in self.parts.values() if len(part.indices) < (episodes or 0)]
        kind = "" if self.benchmark else f"{next(iter(self.parts.values())).split} "
        counts = [f"{part.env} has {len(part.indices)} {kind}tasks" for part in parts]
        return f"--episodes {episodes}: {', '.join(counts)}; all of them are played" if parts else ""

    def vote(self, trajectory: Trajectory) -> Any:
        """Return the answer of an episode, read by the environment that it was played in; None for no answer."""
        name = trajectory.task.rpartition(":")[0] if self.benchmark else next(iter(self.parts))
        return self.parts[name].vote(trajectory)

    def report(self, groups: Sequence[Group], policy: str, seed: int, strategy: Strategy | None = None) -> Report:
        """Compute the report of the groups that were played; for a benchmark, also one report per environment.

        `policy` is the policy's name in the report. `seed` is the evaluation's and also seeds the bootstrap of the
        intervals. With a `strategy` the report states what it gained over single episodes.
        """

        def make_report(groups: Sequence[Group], **fields: Any) -> Report:
            tasks = trajectories_by_task(groups)
            gain = Gain.from_tasks(strategy, format_spec(strategy), tasks, self.vote) if strategy else None
            return Report.from_groups(groups, policy=policy, seed=seed, vote=self.vote, strategy=gain, **fields)

        def make_part_report(part: TargetPart) -> Report:
            own_groups = [group for group in groups if group.ticket.split == part.split]
            return make_report(own_groups, env=part.env, env_args=dict(part.arguments), digest=part.digest)

        if not self.benchmark:
            (part,) = self.parts.values()
            return make_part_report(part)
        env_reports = {name: make_part_report(part) for name, part in self.parts.items()}
        return make_report(
            groups,
            env=None,
            benchmark=self.benchmark,
            digest=self.digest,
            envs=env_reports,
            over_envs=mean_success([report.success for report in env_reports.values()]),
            over_envs_counting_errors=mean_success([r.success_counting_errors for r in env_reports.values()]),
            left_out=dict(self.left_out),
        )


def mean_success(rates: Sequence[Estimate]) -> Estimate:
    """Return the mean of the environments' success rates, all with the same weight, and its interval.

    All fields are None if there are no environments or one of them has no score.
    """
    means, intervals = [], []
    for success in rates:
        if success.mean is None or success.low is None or success.high is None:
            return Estimate(None, None, None)
        means.append(success.mean)
        intervals.append(Interval(success.low, success.high))
    if not means:
        return Estimate(None, None, None)
    return Estimate(sum(means) / len(means), *mean_interval(means, intervals))


def _max_turns(env: gymnasium.Env) -> int | None:
    turns = getattr(env.unwrapped, "max_turns", None)
    return turns if isinstance(turns, int) else None


def _non_default(arguments: Mapping[str, Any], entry: Callable[..., Any]) -> dict[str, Any]:
    """The arguments that differ from the defaults of `entry`, as JSON values."""
    defaults = {name: parameter.default for name, parameter in inspect.signature(entry).parameters.items()}
    changes = {key: value for key, value in arguments.items() if defaults.get(key, inspect.Parameter.empty) != value}
    return json.loads(json.dumps(changes, default=str))
