"""Named, versioned, hashed sets of tasks: `core-v1`, `math-v1`, `games-v1`.

chosen = load("core-v1")      # once per process; checks every digest that is on record
suite = chosen.make()         # one environment behind which all of them are played
suite.reset(seed=0, options={"split": "math/Arithmetic-v0:test", "index": chosen.parts[0].indices[0]})
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
from envs.benchmarks.entries import BENCHMARKS, Benchmark, Entry
from envs.benchmarks.recorded import RECORDED
from envs.data import VARIABLE, MissingData
from envs.env import Env
from envs.procedural import shuffled
from envs.rows import ROWS
from envs.suggestions import unknown
from envs.suite import Suite

__all__ = ["BENCHMARKS", "Benchmark", "Card", "Entry", "Loaded", "Part", "card", "find", "load", "part"]


@dataclass(frozen=True, slots=True)
class Part:
    """An entry with the tasks it has here; `digest` is over all that an episode opens with, and the answers."""

    entry: Entry
    indices: tuple[int, ...]
    digest: str
    blocking: bool


@dataclass(frozen=True, slots=True)
class Loaded:
    """A benchmark as far as this machine has it. `left_out` says, by entry, what is missing."""

    benchmark: Benchmark
    parts: tuple[Part, ...]
    left_out: Mapping[str, str]

    @property
    def digest(self) -> str:
        """One digest of all parts; two results with the same one are on the same tasks."""
        return _digest(f"{part.entry.label} {part.digest}" for part in self.parts)

    def make(self) -> Suite:
        """An environment that plays any task of any part, as `"ENTRY:split"`."""
        members = {part.entry.name: _maker(part.entry) for part in self.parts}
        return Suite(members, blocking=any(part.blocking for part in self.parts))


def find(name: str) -> Benchmark:
    """The benchmark called `name`. Raises ValueError for an unknown one, with the nearest."""
    known = {benchmark.name: benchmark for benchmark in BENCHMARKS}
    if name not in known:
        raise ValueError(unknown("benchmark", name, known))
    return known[name]


def load(name: str) -> Loaded:
    """The benchmark with its tasks, loaded once per process.

    An entry whose files or packages are not here is left out. Raises ValueError for an unknown name, for tasks that
    are not those on record, and where every entry is left out.
    """
    return _load(name, os.environ.get(VARIABLE))


def part(entry: Entry) -> Part:
    """The tasks of an entry. Raises MissingData or ImportError where something it needs is not here."""
    env = _maker(entry)()
    try:
        assert isinstance(env.unwrapped, Env), f"{entry.env} is no environment of tasks"
        indices = _chosen(entry, len(env.unwrapped.load(entry.split)))
        return Part(entry, indices, _digest(_openings(env, entry, indices)), env.unwrapped.blocking)
    finally:
        env.close()


@cache
def _load(name: str, data_root: str | None) -> Loaded:
    benchmark = find(name)
    record = RECORDED.get(name, {})
    needs = {row.id: bool(row.extra or row.data) for row in ROWS}
    parts, left_out = [], {}
    for entry in benchmark.entries:
        try:
            found = part(entry)
        except (ImportError, MissingData, gymnasium.error.DependencyNotInstalled) as error:
            if not needs.get(entry.env):
                raise
            left_out[entry.name] = " ".join(str(error).split())
            continue
        wanted = record.get(entry.label)
        if wanted is not None and wanted != (len(found.indices), found.digest):
            raise ValueError(
                f"benchmark {name}: {entry.label} has {len(found.indices)} tasks of digest {found.digest}, "
                f"on record are {wanted[0]} of {wanted[1]}; changed tasks need a new version"
            )
        parts.append(found)
    if not parts:
        raise ValueError(f"benchmark {name}: every entry is left out; {'; '.join(left_out.values())}")
    return Loaded(benchmark, tuple(parts), left_out)


def _maker(entry: Entry) -> partial[gymnasium.Env]:
    return partial(catalogue.make, entry.env, **arguments(entry.words.split(), catalogue.entry(entry.env)))


def _chosen(entry: Entry, total: int) -> tuple[int, ...]:
    """The indices of the entry's tasks, spread over the split by a fixed shuffle: a file's head is no fair sample."""
    if entry.tasks is None:
        return tuple(range(total))
    if entry.tasks > total:
        raise ValueError(f"{entry.label} has {total} tasks, not {entry.tasks}")
    return tuple(sorted(shuffled(i, total, f"benchmark {entry.label}") for i in range(entry.tasks)))


def _openings(env: gymnasium.Env, entry: Entry, indices: Sequence[int]) -> Iterator[str]:
    """What every episode opens with, and what is behind it."""
    assert isinstance(env.unwrapped, Env)
    yield f"{entry.env} {entry.words} {entry.split} {env.unwrapped.max_turns}"
    for index in indices:
        messages, info = env.reset(seed=index, options={"split": entry.split, "index": index})
        task = env.unwrapped.task
        told = task.prompt and task.answer is not None
        hidden = None if told else dict(task.metadata)  # where the metadata is the problem, as a map is
        opening = [info["task"], messages, info["tools"], task.answer, hidden]
        yield json.dumps(opening, sort_keys=True, ensure_ascii=True)


def _digest(lines: Iterator[str]) -> str:
    found = hashlib.blake2b(digest_size=16)
    for line in lines:
        found.update(line.encode() + b"\n")
    return found.hexdigest()
