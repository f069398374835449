"""The training loop: play groups of episodes, keep or refuse them, score them, train on them, sync the weights, repeat.

The same loop serves every method and every schedule. A ticket is a group to be played, and with the default settings
`(lag + 1) * groups` tickets are open at a time, and an update trains on the oldest ones whose groups were kept. So a
group that is trained on was started at most `lag` updates ago, and it is not selected by how fast it ended, which would
favour short episodes. A group that the recipe's `keep` refuses is replaced by a new ticket at once (dynamic sampling).
With several seats, a ticket gives a group for each of them, and is replaced if all are refused. With several policies,
each trains on the groups of its seats, in the same updates. `rl.schedule` says how else updates may take their groups.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from rl.methods.parts.verdict import Judge
from rl.methods.recipe import Recipe
from rl.records import Group
from rl.rollout.runner import Runner
from rl.rollout.timeouts import find_hang
from rl.train.credit.metrics import credit_metrics
from rl.train.journal.journal import Journal
from rl.train.progress import Progress
from rl.train.rollout_metrics import rollout_metrics
from rl.train.scheduling.boundary import Boundary, open_boundary
from rl.train.scheduling.claim import Counts
from rl.train.scheduling.lag_metrics import lag_metrics
from rl.train.scheduling.part_faults import part_fault
from rl.train.scheduling.plan import Plan, TrainingStopped
from rl.train.scheduling.scheduler import Scheduler
from rl.train.scheduling.updater import Updater
from rl.train.seats.opponents import Opponents, stop_reason
from rl.train.seats.trainees import Trainee

__all__ = ["Loop", "Plan", "TrainingStopped", "frozen_heap"]


COLLECTION_THRESHOLD = 50_000  # objects made and not freed between two collections; Python's own is 700


@contextmanager
def frozen_heap() -> Iterator[None]:
    """Context in which garbage collections are rarer, and skip what exists at its start.

    Skipping saves a tenth of the bundled model's CPU time, and fewer collections 2 to 3 % of what is left: the records
    of an update live until its end, and each collection would look at them again.
    """
    thresholds = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(COLLECTION_THRESHOLD, *thresholds[1:])
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()


@dataclass
class Loop:
    """Connects the parts of a run and makes its updates.

    Attributes:
        runner: Plays episodes.
        trainees: The policies that are trained. With several, each is credited and trained by the groups of its role.
        recipe: The method's parts.
        plan: The numbers that control the loop.
        progress: Where the run stands; changed in place.
        sync_weights: Hands the learners' weights to the sampling engines (`Engine.sync_weights`).
        on_update: Called with the metrics and all groups of an update, once the engine has its weights.
        pause: Tells the engines that nothing is sampled until `sync_weights` (`Engine.pause`).
        between_updates: Awaited before the first update and after each one; cancelled once `stopping` is set.
        updater: Computes the updates; None for an `Updater` of the trainees.
        opponents: Draws who plays the seats that the policy leaves, which is recorded in tickets; None for nobody.
        judge: Whom verdict parts ask; None without such parts.
        best_success: Returns the best success of an evaluation so far, None without any.
        journal: Where tickets are recorded, and what is replayed first; by default neither.
        stopping: Set it to end `run` as soon as possible.

    """

    runner: Runner
    trainees: Iterable[Trainee]
    recipe: Recipe
    plan: Plan
    progress: Progress
    sync_weights: Callable[[], None]
    on_update: Callable[[dict[str, float], list[Group]], None]
    pause: Callable[[], None] = lambda: None
    between_updates: Callable[[], Coroutine[Any, Any, None]] | None = None
    updater: Updater | None = None
    opponents: Opponents | None = None
    judge: Judge | None = None
    best_success: Callable[[], float | None] = lambda: None
    journal: Journal = field(default_factory=Journal)
    stopping: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        """Declare what `run` makes."""
        self.scheduler: Scheduler
        self._num_begun = self.progress.update  # updates that had been made when the last one was begun
        self._boundary: Boundary

    async def run(self, updates: int) -> None:
        """Make updates until the run has made `updates` in total, one of its limits is reached, or `stopping` is set.

        Raises `TrainingStopped` if every episode fails, the environment hangs, no group is kept, or a part of the
        recipe does not fit the run, returns what its slot does not take, or is a user's own and raises an exception.
        """
        parts = self.recipe, self.plan, self.progress, self.opponents, self.stopping
        self.scheduler = Scheduler(self.runner, *parts, self.journal, self.judge)
        self._boundary = open_boundary(self.plan.schedule.in_flight, self.scheduler, self.runner, self.trainees)
        updater = self.updater or Updater(self.trainees, self.recipe, self.plan, self.pause)
        try:
            self.scheduler.start()
            await self._between_updates()
            while self.progress.update < updates and not (self.stopping.is_set() or self.end_reason()):
                await self._update(updater)
                await self._between_updates()
        except BaseException as error:
            if reason := find_hang(error) or stop_reason(error):
                raise TrainingStopped(str(reason)) from None
            if fault := part_fault(error, self.recipe):
                was_made = self.progress.update > self._num_begun
                raise TrainingStopped(fault if was_made else f"{fault}; the update was not made") from error
            raise
        finally:
            await self.scheduler.close()
            updater.close()

    async def _between_updates(self) -> None:
        if self.between_updates is None:
            return
        work = asyncio.ensure_future(self.between_updates())
        stopping = asyncio.ensure_future(self.stopping.wait())
        try:
            await asyncio.wait({work, stopping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            work.cancel()  # without effect if it has ended
            await asyncio.gather(work, stopping, return_exceptions=True)
        if not work.cancelled():
            work.result()

    def end_reason(self) -> str:
        """Return which limit of `Plan.ending` is reached; "" for none."""
        return self.plan.ending.reason(self.progress.tokens, self.progress.seconds, self.best_success())

    async def _update(self, updater: Updater) -> None:
        """Make one update, or return without one if `stopping` is set before there are enough groups."""
        start_time, self._num_begun = time.perf_counter(), self.progress.update
        scheduler, update, is_overlapping = self.scheduler, self.progress.update, self.plan.overlap
        claim = await scheduler.claim()
        if claim is None:
            return
        if is_overlapping:
            sampling_end = time.perf_counter()
            scheduler.num_learning = claim.num_tickets
            results = await updater.update(claim.training_groups, update)
        await self._settle()
        if not is_overlapping:
            sampling_end = time.perf_counter()
        with self.runner.clock.paused():  # the event loop is busy, for which no episode in flight should pay
            if not is_overlapping:
                results = await updater.update(claim.training_groups, update)
            scheduler.num_learning = 0
            sampling = {"time/sample_s": sampling_end - start_time}
            self._finish_update(claim.groups, claim.training_groups, {**sampling, **results}, start_time)
        self._boundary.reopen()

    async def _settle(self) -> None:
        """Let what is in flight come to where the weights may change."""
        self.scheduler.replay()
        await self.scheduler.cancel_stale(self.progress.update + 1)
        await self._boundary.settle()

    def _finish_update(
        self, groups: list[Group], training_groups: list[Group], results: dict[str, float], start_time: float
    ) -> None:
        """Sync the weights and report the update, which began at `start_time`."""
        progress, scheduler = self.progress, self.scheduler
        ages = lag_metrics(training_groups, progress.update)
        self.sync_weights()
        progress.update += 1
        scheduler.commit()
        metrics = {"update": progress.update, **rollout_metrics(groups, training_groups), **results}
        metrics |= credit_metrics(training_groups) | progress.history.coverage() | ages
        if self.plan.schedule.max_lag is not None:
            counts, scheduler.counts = scheduler.counts, Counts()
            metrics |= {"groups/stale": counts.stale, "groups/cancelled": counts.cancelled}
        end_time = time.perf_counter()
        update_s = end_time - start_time
        metrics |= {"time/train_s": update_s - results["time/sample_s"], "time/update_s": update_s}
        progress.episodes += int(metrics["episodes/played"])
        progress.tokens += int(metrics["tokens/sampled"])
        progress.seconds += metrics["time/update_s"]
        if self.opponents:
            in_play = [*progress.open.values(), *(g.ticket for ended in progress.ended.values() for g, _ in ended)]
            metrics |= self.opponents.finish_update(progress.update, groups, in_play)
        try:
            scheduler.open_tickets()
        finally:  # a part that chooses what to play next may err, but this update has been made
            self.on_update(metrics, groups)
