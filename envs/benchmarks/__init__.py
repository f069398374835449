"""Named, versioned sets of tasks with digests: `core-v2`, `math-v2`, `code-v2`, `games-v2`, `tools-v1` and older ones.

benchmark = load("core-v1")  # once per process; checks the digest of every published entry
suite = benchmark.make()     # one environment that plays all of its tasks
suite.reset(seed=0, options={"split": "math/Arithmetic-v0:test", "index": benchmark.parts[0].indices[0]})
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial

import gymnasium

from envs import catalogue
from envs.arguments import arguments
from envs.benchmarks.cards import Card, card
from envs.benchmarks.digests import DIGESTS
from envs.benchmarks.entries import BENCHMARKS, Benchmark, Entry
from envs.data import DATA_ROOT_VARIABLE, MissingData
from envs.env import Env
from envs.procedural import permute
from envs.rows import ROWS
from envs.suggestions import unknown_message
from envs.suite import Suite

__all__ = ["BENCHMARKS", "Benchmark", "Card", "Entry", "LoadedBenchmark", "Part", "card", "find", "load", "load_part"]


@dataclass(frozen=True, slots=True)
class Part:
    """The tasks of an entry of a benchmark, as this machine has them.

    Attributes:
        entry: The entry: an environment, its arguments and a split.
        indices: Indices of its tasks in their split, ascending.
        digest: Hash of the opening messages, tools and answers of all tasks, in hex.
        blocking: Whether the environment may wait for something outside the process.
    """

    entry: Entry
    indices: tuple[int, ...]
    digest: str
    blocking: bool


@dataclass(frozen=True, slots=True)
class LoadedBenchmark:
    """A benchmark's tasks on this machine: one part for each entry whose files and packages are there.

    `left_out` maps the name of each missing entry to the reason, in one line.
    """

    benchmark: Benchmark
    parts: tuple[Part, ...]
    left_out: Mapping[str, str]

    @property
    def digest(self) -> str:
        """Hash of all parts, in hex. Results with equal digests are on equal tasks."""
        return _digest(f"{part.entry.label} {part.digest}" for part in self.parts)

    def make(self) -> Suite:
        """Make one environment that plays the tasks of every part.

        Its splits are named by the labels of the entries: `reset(options={"split": part.entry.label, "index": 3})`.
        """
        members = {part.entry.name: _env_factory(part.entry) for part in self.parts}
        return Suite(members, blocking=any(part.blocking for part in self.parts))


def find(name: str) -> Benchmark:
    """Return the benchmark called `name`, such as "core-v1".

    Raises ValueError for an unknown name, with the nearest one.
    """
    by_name = {benchmark.name: benchmark for benchmark in BENCHMARKS}
    if name not in by_name:
        raise ValueError(unknown_message("benchmark", name, by_name))
    return by_name[name]


def load(name: str) -> LoadedBenchmark:
    """Load a benchmark such as "core-v1" with its tasks, once per process and data root (TURNWISE_DATA).

    Entries whose files or packages are missing are left out. Raises ValueError for an unknown name, for tasks that
    differ from the published ones, and if every entry is left out.
    """
    return _load(name, os.environ.get(DATA_ROOT_VARIABLE))


def load_part(entry: Entry) -> Part:
    """Load the tasks of an entry. Raises MissingData or ImportError if this machine lacks files or a package."""
    env = _env_factory(entry)()
    try:
        assert isinstance(env.unwrapped, Env), f"{entry.env} is not an environment with tasks"
        indices = _select_indices(entry, len(env.unwrapped.load(entry.split)))
        return Part(entry, indices, _digest(_describe_tasks(env, entry, indices)), env.unwrapped.blocking)
    finally:
        env.close()


@cache
def _load(name: str, data_root: str | None) -> LoadedBenchmark:
    """Load a benchmark; `data_root` is only part of the cache key."""
    benchmark = find(name)
    digests = DIGESTS.get(name, {})
    has_needs = {row.id: bool(row.extra or row.data) for row in ROWS}
    parts, left_out = [], {}
    for entry in benchmark.entries:
        try:
            part = load_part(entry)
        except (ImportError, MissingData, gymnasium.error.DependencyNotInstalled) as error:
            if not has_needs.get(entry.env):
                raise
            left_out[entry.name] = " ".join(str(error).split())
            continue
        expected = digests.get(entry.label)
        if expected is not None and expected != (len(part.indices), part.digest):
            raise ValueError(
                f"benchmark {name}: {entry.label} has {len(part.indices)} tasks with digest {part.digest}, "
                f"published were {expected[0]} with {expected[1]}; changed tasks need a new version"
            )
        parts.append(part)
    if not parts:
        raise ValueError(f"benchmark {name}: every entry is left out; {'; '.join(left_out.values())}")
    return LoadedBenchmark(benchmark, tuple(parts), left_out)


def _env_factory(entry: Entry) -> partial[gymnasium.Env]:
    return partial(catalogue.make, entry.env, **arguments(entry.env_arguments, catalogue.entry(entry.env)))


def _select_indices(entry: Entry, total: int) -> tuple[int, ...]:
    """Indices of the entry's tasks. A fixed permutation spreads them, as the head of a file is no fair sample."""
    if entry.tasks is None:
        return tuple(range(total))
    if entry.tasks > total:
        raise ValueError(f"{entry.label} has {total} tasks, not {entry.tasks}")
    return tuple(sorted(permute(i, total, f"benchmark {entry.label}") for i in range(entry.tasks)))


def _describe_tasks(env: gymnasium.Env, entry: Entry, indices: Sequence[int]) -> Iterator[str]:
    """Yield a line for the entry and one per task with everything that the digest covers."""
    assert isinstance(env.unwrapped, Env)
    yield f"{entry.env} {entry.arguments} {entry.split} {env.unwrapped.max_turns}"
    for index in indices:
        messages, info = env.reset(seed=index, options={"split": entry.split, "index": index})
        task = env.unwrapped.task
        is_complete = task.prompt and task.answer is not None  # else the metadata is the problem, such as a map
        metadata = None if is_complete else dict(task.metadata)
        fields = [info["task"], messages, info["tools"], task.answer, metadata]
        yield json.dumps(fields, sort_keys=True, ensure_ascii=True)


def _digest(lines: Iterator[str]) -> str:
    blake2b = hashlib.blake2b(digest_size=16)
    for line in lines:
        blake2b.update(line.encode() + b"\n")
    return blake2b.hexdigest()
