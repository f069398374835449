"""What is evaluated: one environment's split, or a benchmark of several. It gives the tickets and writes the report."""

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
from rl.evaluate.comparison import Played
from rl.evaluate.metrics import by_task
from rl.evaluate.report import Estimate, Report
from rl.evaluate.runner import count_tasks, tickets
from rl.evaluate.statistics import Interval, mean_interval
from rl.evaluate.strategies import Strategy, label
from rl.evaluate.strategies.gains import Gain
from rl.evaluate.voting import Vote, ballot
from rl.records import Group, Ticket, Trajectory

EPISODES = 200  # tasks of an environment, unless told otherwise


@dataclass(frozen=True)
class Part:
    """Some tasks of one environment; `split` is what tickets call them, `arguments` those that are not the default."""

    env: str
    split: str
    indices: Sequence[int]
    vote: Vote
    arguments: Mapping[str, Any] = field(default_factory=dict)
    digest: str | None = None


@dataclass(frozen=True)
class Subject:
    """The parts by name; one part without a benchmark, any number with one."""

    make_env: Callable[[], gymnasium.Env]
    parts: Mapping[str, Part]
    benchmark: str | None = None
    digest: str | None = None
    left_out: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of_env(cls, spec: str, words: Sequence[str], split: str) -> Subject:
        """A split of the environment that `spec` names. ValueError for one without tasks or a wrong argument."""
        try:
            entry = envs.entry(spec)
            arguments = envs.arguments(words, entry)
            make_env = partial(envs.make, spec, **arguments)
            env = make_env()
            try:
                name = env.spec.id if env.spec else spec
                part = Part(name, split, range(count_tasks(env, split)), ballot(env), _told(arguments, entry))
            finally:
                env.close()
        except gymnasium.error.Error as error:  # one of its own environments that lacks a dependency
            raise ValueError(f"--env {spec}: {error}") from error
        return cls(make_env, {name: part})

    @classmethod
    def of_benchmark(cls, name: str) -> Subject:
        """All that is here of the benchmark called `name`. ValueError for an unknown one, or changed tasks."""
        loaded = benchmarks.load(name)
        suite = loaded.make()
        parts = {}
        try:
            for part in loaded.parts:
                entry = part.entry
                vote = ballot(suite.member(entry.name))
                given = envs.arguments(entry.words.split(), envs.entry(entry.env))
                told = _told(given, envs.entry(entry.env))
                parts[entry.name] = Part(entry.env, entry.label, part.indices, vote, told, part.digest)
        finally:
            suite.close()
        return cls(loaded.make, parts, name, loaded.digest, loaded.left_out)

    def played(self, seed: int) -> Played:
        """On what a result will be found, to refuse a comparison before anything is played."""
        if self.benchmark:
            digests = {name: part.digest for name, part in self.parts.items()}
            return Played(None, self.benchmark, seed, None, self.digest, digests)
        (part,) = self.parts.values()
        return Played(part.env, None, seed, part.arguments)

    def tickets(self, episodes: int | None, samples: int, seed: int) -> list[Ticket]:
        """One ticket per task: `episodes` of each environment at most; unless given, a benchmark's are all played."""
        chosen: list[Ticket] = []
        for part in self.parts.values():
            most = episodes or (len(part.indices) if self.benchmark else EPISODES)
            for ticket in tickets(len(part.indices), most, samples, seed, part.split):
                chosen.append(replace(ticket, number=len(chosen), index=part.indices[ticket.index]))
        return chosen

    def vote(self, trajectory: Trajectory) -> Any:
        """What an episode answers, as its environment reads it."""
        name = trajectory.task.partition(":")[0] if self.benchmark else next(iter(self.parts))
        return self.parts[name].vote(trajectory)

    def report(self, groups: Sequence[Group], policy: str, seed: int, strategy: Strategy | None = None) -> Report:
        """The figures of the groups: of the one environment, or of all and of each."""

        def of(some: Sequence[Group], **known: Any) -> Report:
            gain = Gain.of(strategy, label(strategy), by_task(some), self.vote) if strategy else None
            return Report.from_groups(some, policy=policy, seed=seed, vote=self.vote, strategy=gain, **known)

        def of_part(part: Part) -> Report:
            own = [group for group in groups if group.ticket.split == part.split]
            return of(own, env=part.env, env_args=dict(part.arguments), digest=part.digest)

        if not self.benchmark:
            (part,) = self.parts.values()
            return of_part(part)
        inside = {name: of_part(part) for name, part in self.parts.items()}
        return of(
            groups,
            env=None,
            benchmark=self.benchmark,
            digest=self.digest,
            envs=inside,
            over_envs=over(list(inside.values())),
            left_out=dict(self.left_out),
        )


def over(reports: Sequence[Report]) -> Estimate:
    """The mean of the environments' success rates, each environment weighing the same; None where one has no score."""
    found = [(r.success.mean, r.success.low, r.success.high) for r in reports]
    known = [(mean, Interval(low, high)) for mean, low, high in found if None not in (mean, low, high)]  # type: ignore
    if not known or len(known) < len(found):
        return Estimate(None, None, None)
    means = [mean for mean, _ in known if mean is not None]
    return Estimate(sum(means) / len(means), *mean_interval(means, [interval for _, interval in known]))


def _told(arguments: Mapping[str, Any], entry: Callable[..., Any]) -> dict[str, Any]:
    """The arguments that differ from the defaults, as JSON has them."""
    defaults = {name: parameter.default for name, parameter in inspect.signature(entry).parameters.items()}
    changed = {key: value for key, value in arguments.items() if defaults.get(key, inspect.Parameter.empty) != value}
    return json.loads(json.dumps(changed, default=str))
