"""One simulated run: `rl.train.loop.Loop` with its scheduler, over episodes, engines and a trainer that take time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from benchmarks.scale.engines import Engines, Speed
from benchmarks.scale.virtual_time import run_virtual
from envs.types import Stop
from envs.watchdog import Clock
from rl.methods.parts import keep, sampler
from rl.methods.parts.sampler import History
from rl.methods.recipe import Recipe
from rl.records import Completion, Group, Ticket, Trajectory, Turn
from rl.rollout.play_state import PlayState
from rl.schedule import Schedule, with_mode
from rl.seeds import generator
from rl.train.loop import Loop, Plan
from rl.train.progress import Progress

Member = list[tuple[int, float]]  # of each turn: tokens of the reply, and the time that the environment takes


@dataclass(frozen=True)
class Load:
    """What a run does, in any unit of time.

    Attributes:
        draw: Returns the members of a group, whose lengths may depend on each other, from a generator.
        train: Time of an update.
        sync: Time in which engines stand still for new weights.
        groups: Groups per update.
        size: Episodes per group.
        speed: That of each engine.
        engines: Number of engines.
        colocated: Whether engines stand still while the trainer computes, if the schedule does not overlap.
        turn: Time that the run's own process takes for each turn, one turn after the other.
        slowness: How many times as long each engine takes for a step; () for engines that are alike.
    """

    draw: Callable[[np.random.Generator, int], list[Member]]
    train: float
    sync: float
    groups: int
    size: int
    speed: Speed
    engines: int = 1
    colocated: bool = True
    turn: float = 0.0
    slowness: tuple[float, ...] = ()


class Outcome(NamedTuple):
    """What a simulated run comes to. `throughput` is groups per unit of time, lags are of groups after the warm-up.

    `steady` is the throughput after the warm-up: a run that has just begun plays groups for updates to come, which
    `throughput` does not count. `slot_use` is the share of slots in use, `engines_idle` and `trainer_idle` are shares
    of the time.
    """

    throughput: float
    steady: float
    slot_use: float
    engines_idle: float
    trainer_idle: float
    lag_mean: float
    lag_max: float
    given_up: float


@dataclass
class _Trainer:
    """Takes the time of an update; stands in for `rl.train.scheduling.updater.Updater`."""

    engines: Engines
    train: float
    overlap: bool
    busy: float = 0.0

    async def update(self, training_groups: list[Group], update: int) -> dict[str, float]:
        if not self.overlap:
            self.engines.pause()
        await asyncio.sleep(self.train)
        self.busy += self.train
        return {"time/score_s": 0.0}

    def close(self) -> None:
        """Nothing is open."""


@dataclass
class Simulation:
    """A load under a schedule.

    Attributes:
        load: What the run does.
        schedule: Its schedule, by setting of `rl.schedule.Schedule`.
        updates: Number of updates.
        seed: That of the lengths.
        warm_up: Share of the updates that the mean of lags and the steady throughput leave out.
        lags: The metrics of each update.
        times: When each update ended.
        numbers: Of each update, the tickets whose groups it was trained on.
    """

    load: Load
    schedule: dict[str, Any]
    updates: int
    seed: int = 0
    warm_up: float = 0.5
    lags: list[dict[str, float]] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    numbers: list[list[int]] = field(default_factory=list)

    def run(self) -> Outcome:
        """Run it in virtual time."""
        return run_virtual(self._run())

    async def _run(self) -> Outcome:
        load, values = self.load, with_mode(self.schedule)
        schedule = Schedule(**values)
        is_alone = load.colocated
        self.engines = Engines(load.engines, load.speed, load.sync, colocated=is_alone, slowness=load.slowness)
        self.version, self._free_at = 0, 0.0
        trainer = _Trainer(self.engines, load.train, bool(schedule.overlap))
        plan = Plan(load.groups, load.size, self.seed, self.updates, schedule)
        loop = Loop(
            SimpleNamespace(play_state=PlayState(), clock=Clock()),  # type: ignore[arg-type]
            [],
            Recipe(strategy=self._play, sampler=sampler.uniform, keep=keep.any_group),
            plan,
            Progress(History(10**6)),
            self._sync_weights,
            self._on_update,
            updater=trainer,  # type: ignore[arg-type]
        )
        await loop.run(self.updates)
        end = asyncio.get_running_loop().time()
        slot_use, working = self.engines.shares()
        first = int(len(self.lags) * self.warm_up)
        late, began = self.lags[first:], self.times[first - 1] if first else 0.0
        given_up = sum(line.get("groups/stale", 0) + line.get("groups/cancelled", 0) for line in self.lags)
        return Outcome(
            self.updates * load.groups / end,
            len(late) * load.groups / (end - began),
            slot_use,
            1 - working,
            1 - trainer.busy / end,
            float(np.mean([line["lag/mean"] for line in late])),
            max(line["lag/max"] for line in self.lags),
            given_up / (self.updates * load.groups),
        )

    async def _orchestrate(self) -> None:
        """Wait until the run's process has come to this turn."""
        now = asyncio.get_running_loop().time()
        self._free_at = max(now, self._free_at) + self.load.turn
        await asyncio.sleep(self._free_at - now)

    def _on_update(self, metrics: dict[str, float], groups: list[Group]) -> None:
        self.lags.append(metrics)
        self.times.append(asyncio.get_running_loop().time())
        self.numbers.append([group.ticket.number for group in groups])

    def _sync_weights(self) -> None:
        self.version += 1
        self.engines.sync_weights()

    async def _play(self, runner: Any, ticket: Ticket) -> list[Group]:
        """Play a group as `rl.methods.parts.strategy.independent` does, with episodes that only take time."""
        members = self.load.draw(generator(self.seed, "lengths", ticket.number), ticket.size)
        played = await asyncio.gather(*(self._episode(ticket, number, one) for number, one in enumerate(members)))
        return [Group(ticket, list(played))]

    async def _episode(self, ticket: Ticket, number: int, member: Member) -> Trajectory:
        session, context, turns = ticket.session(number), 0, []
        try:
            for tokens, env_time in member:
                first = self.version
                context += tokens
                await self.engines.sample(session, tokens, context)
                versions = (first,) if first == self.version else (first, self.version)
                reply = Completion((), (), (), versions, counted=tokens)
                turns.append(Turn((), reply, reward=float(number % 2)))
                if env_time:
                    await asyncio.sleep(env_time)
                if self.load.turn:
                    await self._orchestrate()
        finally:
            self.engines.release(session)
        return Trajectory(turns, Stop.TERMINATED, member=number)
