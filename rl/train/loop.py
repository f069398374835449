"""The training loop: play groups of episodes, keep or refuse them, score them, train on them, sync the weights, repeat.

The same loop serves every method and every `--lag`. A ticket is a group to be played. At any time
`(lag + 1) * groups` tickets are open, and an update trains on the oldest ones whose groups were kept. So a group that
is trained on was started at most `lag` updates ago, and it is not selected by how fast it ended, which would favour
short episodes. A group that the recipe's `keep` refuses is replaced by a new ticket at once (dynamic sampling). With
several seats, a ticket gives a group for each of them, and is replaced if all are refused. With several policies, each
trains on the groups of its seats, in the same updates.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from typing import Any

from rl.learner import batch
from rl.methods.options import PartError
from rl.methods.recipe import Recipe, score_parts
from rl.records import Group, Ticket
from rl.rollout.runner import Runner
from rl.rollout.timeouts import find_hang
from rl.seeds import derive, generator
from rl.settings import Settings
from rl.train.credit.metrics import credit_metrics
from rl.train.learner_thread import LearnerThread
from rl.train.progress import Progress, capacity, is_usable
from rl.train.rollout_metrics import rollout_metrics
from rl.train.seats.opponents import Opponents, stop_reason
from rl.train.seats.trainees import Trainee, merge_metrics

MAX_REFUSALS = 10  # a run stops after refusing this many updates' worth of groups in a row


class TrainingStopped(Exception):
    """The loop cannot continue, for a reason that the user can remedy. The message says which."""


@dataclass(frozen=True)
class Plan:
    """The numbers that control the loop.

    Attributes:
        groups: Tickets that an update trains on: groups, or with several seats one group for each.
        size: Episodes per group.
        seed: The run's seed.
        total_updates: Updates of the whole run, for the schedule of the learning rate.
        lag: Most updates that are made between the start of a group and training on it. 0: a group is sampled with
            the current weights only, and sampling waits while the learner trains (on-policy). L: `(L + 1) * groups`
            groups are played at a time and sampling continues across updates, so tokens may come from weights that are
            up to L updates old.
        overlap: Whether sampling goes on while the learner computes, on a thread of its own; `lag` must be above 0.
            Which weights sample a token then depends on time, so a run does not repeat bit for bit.
        split: Split of the environment to train on.
        temperature: Sampling temperature of the training episodes.
        token_budget: Sampled tokens of the whole run after which it ends; None for no limit.

    """

    groups: int
    size: int
    seed: int
    total_updates: int
    lag: int = 0
    overlap: bool = False
    split: str = "train"
    temperature: float = 1.0
    token_budget: int | None = None

    @classmethod
    def of(cls, s: Settings, updates: int) -> Plan:
        """Return the plan of a run of `updates` updates with these settings."""
        overlap, budget = bool(s.overlap), s.sampled_tokens
        return cls(s.groups, s.size, s.seed, updates, s.lag, overlap, temperature=s.temperature, token_budget=budget)


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
        opponents: Draws who plays the seats that the policy leaves, which is recorded in tickets; None for nobody.
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
    opponents: Opponents | None = None
    stopping: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self, updates: int) -> None:
        """Make updates until the run has made `updates` in total, its token budget is spent, or `stopping` is set.

        Raises `TrainingStopped` if every episode fails, the environment hangs, no group is kept, or a part of the
        recipe does not fit the run.
        """
        self._group_ended = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._num_learning = 0  # tickets that the update under way uses up
        self._learner_thread = LearnerThread()
        try:
            for number in sorted(self.progress.open):
                self._start_group(self.progress.open[number])
            await self._between_updates()
            while self.progress.update < updates and not (self.stopping.is_set() or self._is_budget_spent()):
                await self._update()
                await self._between_updates()
        except PartError as error:
            raise TrainingStopped(f"{error}; the update was not made") from None
        except BaseException as error:
            if reason := find_hang(error) or stop_reason(error):
                raise TrainingStopped(str(reason)) from None
            raise
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            self._learner_thread.close()

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

    def _is_budget_spent(self) -> bool:
        return self.plan.token_budget is not None and self.progress.tokens >= self.plan.token_budget

    async def _update(self) -> None:
        """Make one update, or return without one if `stopping` is set before there are enough groups."""
        start_time = time.perf_counter()
        collection = await self._collect_groups()
        if collection is None:
            return
        groups, training_groups = collection
        sampling_end = time.perf_counter()
        if self.plan.overlap:
            self._num_learning = len({group.ticket.number for group in training_groups})
            results = await self._learner_thread.run(self._compute(training_groups))
            self._num_learning = 0
        with self.runner.clock.paused():  # the event loop is busy, for which no episode in flight should pay
            if not self.plan.overlap:
                results = await self._compute(training_groups)
            sampling = {"time/sample_s": sampling_end - start_time}
            self._finish_update(groups, training_groups, {**sampling, **results}, start_time)

    async def _compute(self, training_groups: list[Group]) -> dict[str, float]:
        """Score `training_groups` and make the optimiser steps of the update; return its metrics."""
        recipe, plan, update = self.recipe, self.plan, self.progress.update
        by_trainee = [(trainee, trainee.role.groups_of(training_groups)) for trainee in self.trainees]
        by_trainee = [(trainee, groups) for trainee, groups in by_trainee if groups]
        start_time = time.perf_counter()
        for trainee, groups in by_trainee:
            trainee.scorer.version = update
            for part in score_parts(recipe):
                await part(trainee.scorer, groups)
        scoring_s = time.perf_counter() - start_time
        rows = [batch.build_rows(groups, recipe, temperature=plan.temperature) for _, groups in by_trainee]
        scale = recipe.schedule(update, plan.total_updates)
        if not plan.overlap:
            self.pause()
        results: dict[str, dict[str, float]] = {}
        for (trainee, _), of_role in zip(by_trainee, rows, strict=True):
            seed = derive(plan.seed, "minibatch", update, *filter(None, [trainee.role.name]))
            metrics = trainee.learner.update(of_role, recipe, scale=scale, seed=seed)
            results[trainee.role.name] = {**metrics, "lr": trainee.learner.lr * scale}
        return {**merge_metrics(results), "time/score_s": scoring_s}

    def _finish_update(
        self, groups: list[Group], training_groups: list[Group], results: dict[str, float], start_time: float
    ) -> None:
        """Sync the weights and report the update, which began at `start_time`."""
        progress = self.progress
        lags = [progress.update - group.ticket.version for group in training_groups]
        self.sync_weights()
        progress.update += 1
        metrics = {"update": progress.update, **rollout_metrics(groups, training_groups), **results}
        metrics |= credit_metrics(training_groups) | progress.history.coverage()
        metrics |= {"lag/mean": sum(lags) / len(lags), "lag/max": max(lags)}
        end_time = time.perf_counter()
        update_s = end_time - start_time
        metrics |= {"time/train_s": update_s - results["time/sample_s"], "time/update_s": update_s}
        progress.episodes += int(metrics["episodes/played"])
        progress.tokens += int(metrics["tokens/sampled"])
        progress.seconds += metrics["time/update_s"]
        if self.opponents:
            in_play = [*progress.open.values(), *(g.ticket for ended in progress.ended.values() for g, _ in ended)]
            metrics |= self.opponents.finish_update(progress.update, groups, in_play)
        self._open_tickets()
        self.on_update(metrics, groups)

    async def _collect_groups(self) -> tuple[list[Group], list[Group]] | None:
        """Wait for the groups of the tickets that the next update uses up, oldest tickets first.

        Returns all of them and those among them to train on, or None if `stopping` was set before they were complete.
        """
        progress = self.progress
        results: list[tuple[Group, bool]] = []
        num_tickets = num_usable = 0
        self._open_tickets()
        while num_usable < self.plan.groups:
            number = progress.consumed + num_tickets
            if number in progress.ended:
                of_ticket = progress.ended[number]
                results += of_ticket
                num_tickets, num_usable = num_tickets + 1, num_usable + is_usable(of_ticket)
            elif self.stopping.is_set():
                return None
            else:
                self._group_ended.clear()
                await self._wait_for_group()
        for _ in range(num_tickets):
            del progress.ended[progress.consumed]
            progress.consumed += 1
        return [group for group, _ in results], [group for group, is_kept in results if is_kept]

    async def _wait_for_group(self) -> None:
        """Wait until a group ends or `stopping` is set; raise the exception of a group's task that failed."""
        waiters = {asyncio.ensure_future(self._group_ended.wait()), asyncio.ensure_future(self.stopping.wait())}
        try:
            await asyncio.wait({*waiters, *self._tasks}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for waiter in waiters:
                waiter.cancel()
        for task in [task for task in self._tasks if task.done()]:
            self._tasks.discard(task)
            task.result()

    def _open_tickets(self) -> None:
        """Open tickets until `(lag + 1) * groups` of them are open or have ended and are still to be trained on."""
        progress, plan, history = self.progress, self.plan, self.progress.history
        waiting = sum(map(is_usable, progress.ended.values()))
        usable = progress.update * plan.groups + waiting + self._num_learning
        count = capacity(plan.lag, plan.groups, progress.update, usable=usable, running=len(progress.open))
        if count <= 0:
            return
        first = progress.admitted
        wave = range(first, first + count)
        indices = [history.draw(self.recipe.sampler, generator(plan.seed, "task", number)) for number in wave]
        sizes = self.recipe.allot(history, indices, plan.size, generator(plan.seed, "allot", first))
        for number, index, size in zip(wave, indices, sizes, strict=True):
            seed = derive(plan.seed, "ticket", number)
            opponent = self.opponents.choose(number) if self.opponents else ""
            version, settled = progress.update, progress.consumed
            ticket = Ticket(number, index, plan.split, seed, int(size), version, settled, opponent, (first, count))
            progress.admitted += 1
            progress.open[number] = ticket
            self._start_group(ticket)

    def _start_group(self, ticket: Ticket) -> None:
        self._tasks.add(asyncio.get_running_loop().create_task(self._play_ticket(ticket)))

    async def _play_ticket(self, ticket: Ticket) -> None:
        """Play the groups of a ticket, one for each seat, and keep or refuse each of them."""
        progress = self.progress
        groups = await self.recipe.strategy(self.runner, ticket)
        self.runner.play_state.close_group(ticket)
        for group in groups:
            self._shape(group)
        of_ticket = [(group, bool(group.trajectories) and self.recipe.keep(group)) for group in groups]
        progress.finish_ticket(ticket, of_ticket)
        if is_usable(of_ticket):
            progress.refused.clear()
        else:
            progress.refused += groups
            self._check_refusals()
            self._open_tickets()
        self._group_ended.set()

    def _shape(self, group: Group) -> None:
        if not group.trajectories:
            return
        for shape in self.recipe.shape:
            group.rewards = [float(reward) for reward in shape(group)]
        if len(group.rewards) != len(group.trajectories):
            count = len(group.trajectories)
            raise PartError(f"shape returned {len(group.rewards)} rewards for the {count} members of a group")

    def _check_refusals(self) -> None:
        """Raise `TrainingStopped` if the last groups leave no hope that there will be anything to train on."""
        groups = self.progress.refused
        num_tickets = len({group.ticket.number for group in groups})
        errors = [trajectory.error for group in groups for trajectory in group.errored]
        # Wait for as many groups as an update needs: broken tasks fail fast, so they end before any others.
        if num_tickets >= max(self.plan.groups, 4) and errors and not any(group.trajectories for group in groups):
            raise TrainingStopped(f"every episode fails: {errors[0]}")
        if num_tickets >= MAX_REFUSALS * self.plan.groups:
            rewards = sorted({trajectory.reward for group in groups for trajectory in group.trajectories})
            examples = ", ".join(f"{reward:g}" for reward in rewards[:3]) + (", ..." if len(rewards) > 3 else "")
            raise TrainingStopped(
                f"0 of the last {len(groups)} groups were kept; rewards were {examples}: "
                "the tasks are too easy or too hard for the policy, or --size is too small for rewards to differ"
            )
