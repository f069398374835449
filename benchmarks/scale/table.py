"""A reference table of schedules over long-tailed replies, which the simulator must come to.

Load: groups of 8 episodes with 4 turns. A reply has `exp(5 + s (0.7 z_group + 0.7 z_turn))` tokens with standard
normal `z`, at most 8000. An environment takes a lognormal time with median 60 and deviation 1. One engine with 64 slots
samples one token of each in a unit of time. An update takes 1500 units, the hand-over of weights 60, in which nothing
is sampled, and after it each context is read again, at 0.001 units a token. 40 updates of 16 groups.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from benchmarks.scale.engines import Speed
from benchmarks.scale.simulation import Load, Member, Outcome, Simulation

MEDIAN = 5.0  # logarithm of the tokens of a reply
TURNS, LONGEST = 4, 8000
UPDATES, SEEDS = 40, 4
UNBOUNDED = {"overlap": True, "order": "completion"}
SCHEDULES: Mapping[str, Mapping[str, Any]] = {
    "sync": {"mode": "sync"},
    "one-step-off": {"mode": "one-step-off"},
    "partial, 2 x groups": {"order": "completion", "over_provision": 2.0},
    "async, lag 1": {"lag": 1, **UNBOUNDED},
    "async, lag 2": {"lag": 2, **UNBOUNDED},
    "async, lag 4": {"lag": 4, **UNBOUNDED},
    "async, lag 8": {"lag": 8, **UNBOUNDED},
}


class Cell(NamedTuple):
    """A cell of the table: groups per 1000 units of time, use of slots, mean and largest lag; None where not given."""

    throughput: float
    slot_use: float | None
    lag_mean: float | None
    lag_max: float | None


TABLE: Mapping[tuple[str, float], Cell] = {
    ("sync", 0.6): Cell(3.67, 0.32, 0, 0),
    ("one-step-off", 0.6): Cell(5.47, 0.50, 1, 1),
    ("partial, 2 x groups", 0.6): Cell(5.33, 0.48, 1, 4),
    ("async, lag 1", 0.6): Cell(7.16, 0.65, 1, 2),
    ("async, lag 2", 0.6): Cell(9.63, 0.89, 2, 5),
    ("async, lag 4", 0.6): Cell(9.37, 0.91, 4, 7),
    ("async, lag 8", 0.6): Cell(8.81, 0.93, 8, 11),
    ("sync", 1.2): Cell(1.56, 0.24, None, None),
    ("one-step-off", 1.2): Cell(1.79, 0.28, None, None),
    ("partial, 2 x groups", 1.2): Cell(3.98, 0.61, 1, 13),
    ("async, lag 1", 1.2): Cell(4.85, 0.75, 1, 9),
    ("async, lag 2", 1.2): Cell(6.23, 0.97, 2, 14),
    ("async, lag 4", 1.2): Cell(6.14, 0.98, 4, 17),
}


def draw(rng: np.random.Generator, size: int, *, deviation: float) -> list[Member]:
    """Return the members of a group: tokens and environment time of each turn."""
    group = 0.7 * rng.standard_normal()
    turns = np.exp(MEDIAN + deviation * (group + 0.7 * rng.standard_normal((size, TURNS))))
    tokens = np.minimum(turns, LONGEST).astype(int) + 1
    env_times = 60 * np.exp(rng.standard_normal((size, TURNS)))
    return [list(zip(*member, strict=True)) for member in zip(tokens.tolist(), env_times.tolist(), strict=True)]


def simulate(name: str, deviation: float, *, seeds: int = SEEDS, updates: int = UPDATES) -> Outcome:
    """Return the mean outcome of a cell over `seeds` runs, its largest lag over all."""
    load = Load(partial(draw, deviation=deviation), train=1500, sync=60, groups=16, size=8, speed=Speed(64))
    runs = [Simulation(load, dict(SCHEDULES[name]), updates, seed).run() for seed in range(seeds)]
    mean = Outcome(*np.mean(runs, axis=0).tolist())
    return mean._replace(
        throughput=1000 * mean.throughput, steady=1000 * mean.steady, lag_max=max(run.lag_max for run in runs)
    )
