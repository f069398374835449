"""What a real run measured: how long replies, environments and updates take, for simulations of it and of more."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import nnls

from benchmarks.scale.engines import Speed
from benchmarks.scale.simulation import Load, Member
from rl import config_file
from rl.cli import UserError
from rl.rollout.jsonl import read_file
from rl.schedule import Schedule

ALWAYS_ROOM = 1 << 20  # slots
FITS = 6


@dataclass(frozen=True)
class Reply:
    """A reply of a run: seconds since its update began, seconds that it took, and its tokens."""

    start: float
    seconds: float
    tokens: int


@dataclass(frozen=True)
class Measured:
    """A run's settings and times, all in seconds.

    Attributes:
        settings: The run's `config.toml`.
        groups: The members of each group that was played.
        train_s: Mean of an update's training, the hand-over of weights included.
        speed: Of an engine, fitted to the replies of synchronous updates.
        overhead_s: What a reply takes besides its tokens, in the same fit.
        throughput: Groups per second, of all updates but the first.
        lag_mean: Mean lag of the second half of its updates.
    """

    settings: Mapping[str, Any]
    groups: Sequence[list[Member]]
    train_s: float
    speed: Speed
    overhead_s: float
    throughput: float
    lag_mean: float

    @property
    def schedule(self) -> dict[str, Any]:
        """The run's schedule, by setting."""
        return {name: self.settings[name] for name in Schedule.__dataclass_fields__ if name in self.settings}

    def load(self, engines: int, *, times: float = 1.0, turn_s: float = 0.0) -> Load:
        """Return what this run does, with so many engines, `times` as many groups per update, and `turn_s` per turn."""
        groups = [
            [[(tokens, env_s + self.overhead_s) for tokens, env_s in member] for member in group]
            for group in self.groups
        ]

        def draw(rng: np.random.Generator, size: int) -> list[Member]:
            return groups[int(rng.integers(len(groups)))]

        number, size = max(1, round(self.settings["groups"] * times)), self.settings["size"]
        is_alone = engines == 1  # then the engine samples in the run's own process
        return Load(draw, self.train_s, 0.0, number, size, self.speed, engines, colocated=is_alone, turn=turn_s)


def read_run(folder: Path, speed_of: Measured | None = None) -> Measured:
    """Read a run's folder. `speed_of` gives the speed of engines, for a run whose updates are not synchronous.

    Raises `UserError` for a folder without rollouts, or one of a run with a lag and without `speed_of`.
    """
    settings = config_file.read_run(folder)
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    files = sorted((folder / "rollouts").glob("update-*.jsonl*"))
    if len(lines) < 3 or len(files) < len(lines):
        raise UserError(f"--from {folder}: takes a run of 3 updates or more with --rollouts all")
    groups: list[list[Member]] = []
    updates: list[list[Reply]] = []
    for file in files:
        content, _ = read_file(file)
        of_update, replies = _read_update(content.decode("utf-8"))
        groups += of_update
        updates.append(replies)
    if speed_of is None and (settings.get("lag", 0) or settings.get("over_provision", 1) > 1):
        raise UserError(f"--from {folder}: the speed of engines is measured on a run with --mode sync")
    later = lines[1:]
    speed, overhead = _fit(updates[1:], settings.get("engines", 1)) if speed_of is None else (speed_of.speed, 0.0)
    return Measured(
        settings,
        groups,
        float(np.mean([line["time/train_s"] for line in later])),
        speed,
        overhead if speed_of is None else speed_of.overhead_s,
        settings["groups"] * len(later) / sum(line["time/update_s"] for line in later),
        float(np.mean([line["lag/mean"] for line in lines[len(lines) // 2 :]])),
    )


def _read_update(text: str) -> tuple[list[list[Member]], list[Reply]]:
    by_group: dict[int, list[Member]] = defaultdict(list)
    replies: list[Reply] = []
    for line in map(json.loads, text.splitlines()):
        if line["error"] is not None:
            continue
        time, member = 0.0, []
        for turn in line["turns"]:
            tokens = len(turn["ids"])
            replies.append(Reply(time, turn["sample_s"], tokens))
            member.append((tokens, turn["env_s"]))
            time += turn["sample_s"] + turn["env_s"]
        by_group[line["group"]].append(member)
    return list(by_group.values()), replies


def _fit(updates: Sequence[Sequence[Reply]], engines: int) -> tuple[Speed, float]:
    """Fit `seconds = overhead + tokens * (step + row * n)`, n the mean number of requests of an engine meanwhile.

    All episodes of a synchronous update begin together, so when each of its replies began follows from their lengths.
    """
    speed, overhead = Speed(ALWAYS_ROOM, 1.0, 0.0, prefill=0.0), 0.0
    for _ in range(FITS):  # the mean is over tokens, which take longer the more requests there are
        rows = [
            (1.0, reply.tokens, reply.tokens * active)
            for replies in updates
            for reply, active in zip(replies, _mean_active(replies, engines, speed), strict=True)
        ]
        seconds = [reply.seconds for replies in updates for reply in replies]
        (overhead, step, row), _ = nnls(np.array(rows), np.array(seconds))
        speed = Speed(ALWAYS_ROOM, float(step), float(row), prefill=0.0)
    return speed, float(overhead)


def _mean_active(replies: Sequence[Reply], engines: int, speed: Speed) -> np.ndarray:
    """Return for each reply the mean number of requests of an engine of this speed, over the tokens of the reply."""
    starts = np.array([reply.start for reply in replies])
    ends = starts + np.array([reply.seconds for reply in replies])
    times = np.concatenate([starts, ends])
    order = np.argsort(times, kind="stable")
    active = np.cumsum(np.concatenate([np.ones(len(starts)), -np.ones(len(ends))])[order])[:-1] / engines
    times = times[order]
    tokens_s = 1 / np.maximum(speed.step + speed.row * active, 1e-9)  # of each request

    def within(density: np.ndarray) -> np.ndarray:
        total = np.concatenate([[0.0], np.cumsum(density * np.diff(times))])
        return np.interp(ends, times, total) - np.interp(starts, times, total)

    return within(active * tokens_s) / np.maximum(within(tokens_s), 1e-12)
