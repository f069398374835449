"""The training loop: play, shape, keep, score, credit, learn, hand the weights back. One loop for every `lag`.

A ticket is a group to be played. `(lag + 1) * groups` tickets are open at a time, and an update trains on the oldest
that are kept, so what is trained on was admitted at most `lag` updates ago and never chosen by how fast it ended. A
group that `keep` refuses opens another ticket at once, which is all that dynamic sampling is.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from copy import copy, deepcopy
from dataclasses import dataclass, field
from typing import Any

from envs.types import Stop
from rl.learner import batch
from rl.learner.learner import Learner
from rl.methods.options import PartError
from rl.methods.parts.sampler import History
from rl.methods.parts.score import Scorer
from rl.methods.recipe import Recipe, scores
from rl.records import Group, Ticket, Trajectory
from rl.rollout.runner import Player
from rl.seeds import derive, generator

REFUSALS = 10  # updates' worth of groups refused in a row before the run stops


class TrainingStopped(Exception):
    """The loop cannot go on, for a reason that its user can mend."""


@dataclass(frozen=True)
class Plan:
    """What the loop needs to know besides its parts."""

    groups: int
    size: int
    seed: int
    total: int  # updates of the whole run, for schedules
    lag: int = 0
    split: str = "train"
    temperature: float = 1.0
    tokens: int | None = None  # sampled ones, of the whole run, after which it ends


@dataclass
class Progress:
    """Where a run stands. With the weights, it is all that a resumed run needs."""

    history: History
    update: int = 0
    admitted: int = 0  # tickets opened so far; the next one's number
    consumed: int = 0  # tickets that updates have used up, in order
    open: dict[int, Ticket] = field(default_factory=dict)
    ended: dict[int, tuple[Group, bool]] = field(default_factory=dict)  # not used up; whether to train on it
    finished: dict[str, Trajectory] = field(default_factory=dict)  # members of open tickets that are done
    refused: list[Group] = field(default_factory=list)  # in a row
    episodes: int = 0
    tokens: int = 0
    seconds: float = 0.0

    def state_dict(self, player: Player, recipe: Recipe) -> dict[str, Any]:
        """Everything, episodes in flight included, as it is now; later updates only add streams to its turns."""
        plain = {name: copy(getattr(self, name)) for name in _PLAIN}
        parts = deepcopy(recipe.state_dict())
        return {**plain, "history": self.history.state_dict(), "live": player.in_flight(), "parts": parts}

    def load_state_dict(self, state: dict[str, Any], player: Player, recipe: Recipe) -> None:
        """Continue from `state_dict`."""
        for name in _PLAIN:
            setattr(self, name, copy(state[name]))
        self.history.load_state_dict(state["history"])
        recipe.load_state_dict(state["parts"])
        player.resumed = dict(state["live"])
        player.finished = self.finished


_PLAIN = (
    *("update", "admitted", "consumed", "open", "ended", "finished", "refused"),
    *("episodes", "tokens", "seconds"),
)


@dataclass
class Loop:
    """The parts of one run in motion. `after` is called when an update is complete and its weights are in use."""

    player: Player
    learner: Learner
    recipe: Recipe
    plan: Plan
    progress: Progress
    refresh: Callable[[], None]  # hand the learner's weights to the policy
    after: Callable[[dict[str, float], list[Group]], None]
    scorer: Scorer
    rest: Callable[[], None] = lambda: None  # tell the policy that nothing is sampled until `refresh`
    stopping: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self, updates: int) -> None:
        """Make updates until there have been `updates` in all, or the plan's tokens are sampled, or `stopping` is set.

        Raise `TrainingStopped`.
        """
        self._news = asyncio.Event()
        self._playing: set[asyncio.Task[None]] = set()
        self.player.finished = self.progress.finished
        try:
            for number in sorted(self.progress.open):
                self._play(self.progress.open[number])
            while self.progress.update < updates and not (self.stopping.is_set() or self._spent()):
                await self._update()
        except PartError as error:
            raise TrainingStopped(f"{error}; the update was not made") from None
        finally:
            for task in self._playing:
                task.cancel()
            await asyncio.gather(*self._playing, return_exceptions=True)

    def _spent(self) -> bool:
        return self.plan.tokens is not None and self.progress.tokens >= self.plan.tokens

    async def _update(self) -> None:
        began = time.perf_counter()
        collected = await self._collect()
        if collected is None:
            return
        played, kept = collected
        progress, recipe, plan = self.progress, self.recipe, self.plan
        sampled = time.perf_counter()
        for part in scores(recipe):
            await part(self.scorer, kept)
        scored = time.perf_counter()
        rows = batch.build(kept, recipe, temperature=plan.temperature)
        scale = recipe.schedule(progress.update, plan.total)
        self.rest()
        seen = self.learner.update(rows, recipe, scale=scale, seed=derive(plan.seed, "minibatch", progress.update))
        lags = [progress.update - group.ticket.version for group in kept]
        self.refresh()
        progress.update += 1
        metrics = {"update": progress.update, **measured(played, kept), **seen}
        metrics |= {"lag/mean": sum(lags) / len(lags), "lag/max": max(lags), "lr": self.learner.lr * scale}
        ended = time.perf_counter()
        metrics |= {"time/sample_s": sampled - began, "time/score_s": scored - sampled}
        metrics |= {"time/train_s": ended - sampled, "time/update_s": ended - began}
        progress.episodes += int(metrics["episodes/played"])
        progress.tokens += int(metrics["tokens/sampled"])
        progress.seconds += metrics["time/update_s"]
        self._admit()
        self.after(metrics, played)

    async def _collect(self) -> tuple[list[Group], list[Group]] | None:
        """The groups that the next update uses up, oldest tickets first, and those of them that it trains on.

        None when told to stop before they were complete.
        """
        progress = self.progress
        played: list[Group] = []
        kept: list[Group] = []
        self._admit()
        while len(kept) < self.plan.groups:
            number = progress.consumed + len(played)
            if number in progress.ended:
                group, usable = progress.ended[number]
                played.append(group)
                kept += [group] if usable else []
            elif self.stopping.is_set():
                return None
            else:
                self._news.clear()
                await self._next_news()
        for _ in played:
            del progress.ended[progress.consumed]
            progress.consumed += 1
        return played, kept

    async def _next_news(self) -> None:
        waits = {asyncio.ensure_future(self._news.wait()), asyncio.ensure_future(self.stopping.wait())}
        try:
            await asyncio.wait({*waits, *self._playing}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        for task in [task for task in self._playing if task.done()]:
            self._playing.discard(task)
            task.result()

    def _admit(self) -> None:
        """Open tickets until `(lag + 1) * groups` are open or waiting to be trained on."""
        progress, plan = self.progress, self.plan
        waiting = sum(usable for _, usable in progress.ended.values())
        while len(progress.open) + waiting < (plan.lag + 1) * plan.groups:
            number = progress.admitted
            progress.admitted += 1
            index = progress.history.draw(self.recipe.sampler, generator(plan.seed, "task", number))
            seed = derive(plan.seed, "ticket", number)
            ticket = Ticket(number, index, plan.split, seed, plan.size, progress.update, progress.consumed)
            progress.open[number] = ticket
            self._play(ticket)

    def _play(self, ticket: Ticket) -> None:
        self._playing.add(asyncio.get_running_loop().create_task(self._group(ticket)))

    async def _group(self, ticket: Ticket) -> None:
        progress = self.progress
        group = await self.recipe.strategy(self.player, ticket)
        del progress.open[ticket.number]
        for member in range(ticket.size):
            progress.finished.pop(f"{ticket.number}/{member}", None)
        if group.trajectories:
            for shape in self.recipe.shape:
                group.rewards = shape(group)
            rewards = [trajectory.reward for trajectory in group.trajectories if not trajectory.replayed]
            progress.history.record(ticket.index, sum(rewards) / len(rewards))
        usable = bool(group.trajectories) and self.recipe.keep(group)
        progress.ended[ticket.number] = group, usable
        if usable:
            progress.refused.clear()
        else:
            progress.refused.append(group)
            self._complain()
            self._admit()
        self._news.set()

    def _complain(self) -> None:
        """Stop a run in which nothing is left to train on."""
        refused = self.progress.refused
        errors = [trajectory.error for group in refused for trajectory in group.errored]
        # As many as an update needs: broken tasks fail fast, and are the first to end where others are sound.
        if len(refused) >= max(self.plan.groups, 4) and errors and not any(group.trajectories for group in refused):
            raise TrainingStopped(f"every episode fails: {errors[0]}")
        if len(refused) >= REFUSALS * self.plan.groups:
            rewards = sorted({trajectory.reward for group in refused for trajectory in group.trajectories})
            shown = ", ".join(f"{reward:g}" for reward in rewards[:3]) + (", ..." if len(rewards) > 3 else "")
            raise TrainingStopped(
                f"0 of the last {len(refused)} groups were kept; rewards were {shown}: "
                "the tasks are too easy or too hard for the policy, or --size is too small for rewards to differ"
            )


def measured(groups: list[Group], kept: list[Group]) -> dict[str, float]:
    """The metrics of `docs/metrics.md` that come from records. Rewards are of all groups, before `keep` and shaping.

    Replayed trajectories are counted as such, and are part of nothing else.
    """
    fresh = [[trajectory for trajectory in group.trajectories if not trajectory.replayed] for group in groups]
    played = [trajectory for members in fresh for trajectory in members]
    turns = [turn for trajectory in played for turn in trajectory.turns]
    n = max(len(played), 1)
    varied = [len({trajectory.reward for trajectory in members}) > 1 for members in fresh]
    found = {
        "reward/mean": sum(t.reward for t in played) / n,
        "success/mean": sum(t.success for t in played) / n,
        "episodes/played": float(len(played)),
        "episodes/errored": float(sum(len(group.errored) for group in groups)),
        "episodes/replayed": float(sum(len(group.trajectories) for group in groups) - len(played)),
        "groups/kept": float(len(kept)),
        "groups/played": float(len(groups)),
        "groups/zero_variance": 1 - sum(varied) / max(len(varied), 1),
        "turns/mean": len(turns) / n,
        "turns/invalid": sum(not turn.valid for turn in turns) / max(len(turns), 1),
        "tokens/sampled": float(sum(t.num_drawn for t in played)),
        "tokens/reply": sum(len(turn.completion.ids) for turn in turns) / max(len(turns), 1),
        "truncated/mean": sum(t.stop != Stop.TERMINATED for t in played) / n,
        "truncated/tokens": sum(t.stop == Stop.TOKEN_LIMIT for t in played) / n,
        "replies/cut": sum(turn.completion.finish == "length" for turn in turns) / max(len(turns), 1),
        "time/env_s": sum(turn.env_s for turn in turns),
    }
    names = sorted({name for turn in turns for name in turn.rewards})
    for name in names:
        found[f"rewards/{name}"] = sum(turn.rewards.get(name, 0.0) for turn in turns) / n
    return found
