"""The training loop: play, shape, keep, score, credit, learn, hand the weights back. One loop for every `lag`.

A ticket is a group to be played. `(lag + 1) * groups` tickets are open at a time, and an update trains on the oldest
that are kept, so what is trained on was admitted at most `lag` updates ago and never chosen by how fast it ended. A
group that `keep` refuses opens another ticket at once, which is all that dynamic sampling is.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rl import batch
from rl.learner import Learner
from rl.parts.sampler import History
from rl.recipe import Recipe, scores
from rl.records import Completion, Group, Ticket, Trajectory, Turn
from rl.rollout import Player
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


@dataclass
class Progress:
    """Where a run stands. With the weights, it is all that a resumed run needs."""

    history: History
    update: int = 0
    admitted: int = 0  # tickets opened so far; the next one's number
    consumed: int = 0  # tickets trained on or refused, in order
    open: dict[int, Ticket] = field(default_factory=dict)
    ended: dict[int, Group | None] = field(default_factory=dict)  # None: refused
    finished: dict[str, Trajectory] = field(default_factory=dict)  # members of open tickets that are done
    refused: int = 0  # in a row
    recent: list[Group] = field(default_factory=list)  # every group that ended since the last update
    episodes: int = 0
    tokens: int = 0

    def state_dict(self, player: Player, recipe: Recipe) -> dict[str, Any]:
        """Everything, episodes in flight included."""
        partial = getattr(player.policy, "partial", lambda session: None)
        live = {session: (list(turns), partial(session)) for session, turns in player.live.items()}
        plain = {name: getattr(self, name) for name in _PLAIN}
        return {**plain, "history": self.history.state_dict(), "live": live, "parts": recipe.state_dict()}

    def load_state_dict(self, state: dict[str, Any], player: Player, recipe: Recipe) -> None:
        """Continue from `state_dict`."""
        for name in _PLAIN:
            setattr(self, name, state[name])
        self.history.load_state_dict(state["history"])
        recipe.load_state_dict(state["parts"])
        resumed: dict[str, tuple[list[Turn], Completion | None]] = state["live"]
        player.resumed = resumed
        player.finished = self.finished


_PLAIN = ("update", "admitted", "consumed", "open", "ended", "finished", "refused", "recent", "episodes", "tokens")


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
    stopping: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self, updates: int) -> None:
        """Make updates until there have been `updates` in all, or until `stopping` is set. Raise `TrainingStopped`."""
        self._news = asyncio.Event()
        self._playing: set[asyncio.Task[None]] = set()
        self.player.finished = self.progress.finished
        try:
            for number in sorted(self.progress.open):
                self._play(self.progress.open[number])
            while self.progress.update < updates and not self.stopping.is_set():
                await self._update()
        finally:
            for task in self._playing:
                task.cancel()
            await asyncio.gather(*self._playing, return_exceptions=True)

    async def _update(self) -> None:
        began = time.perf_counter()
        kept = await self._collect()
        if kept is None:
            return
        progress, recipe, plan = self.progress, self.recipe, self.plan
        sampled = time.perf_counter()
        for part in scores(recipe):
            await part(self.learner, kept)
        rows = batch.build(kept, recipe, temperature=plan.temperature)
        scale = recipe.schedule(progress.update, plan.total)
        seen = self.learner.update(rows, recipe, scale=scale, seed=derive(plan.seed, "minibatch", progress.update))
        lags = [progress.update - group.ticket.version for group in kept]
        self.refresh()
        progress.update += 1
        recent, progress.recent = progress.recent, []
        metrics = measured(recent, kept, seen)
        metrics |= {"update": progress.update, "lag/mean": sum(lags) / len(lags), "lag/max": max(lags), "lr": self.learner.lr * scale}
        ended = time.perf_counter()
        metrics |= {"time/sample_s": sampled - began, "time/train_s": ended - sampled, "time/update_s": ended - began}
        progress.episodes += int(metrics["episodes/played"])
        progress.tokens += int(metrics["tokens/sampled"])
        self._admit()
        self.after(metrics, recent)

    async def _collect(self) -> list[Group] | None:
        """The groups of the next update, oldest tickets first; None when told to stop before they were complete."""
        progress, kept = self.progress, []
        number = progress.consumed
        self._admit()
        while len(kept) < self.plan.groups:
            if number in progress.ended:
                group = progress.ended[number]
                number += 1
                if group is not None:
                    kept.append(group)
                continue
            if self.stopping.is_set():
                return None
            self._news.clear()
            await self._next_news()
        for done in range(progress.consumed, number):
            del progress.ended[done]
        progress.consumed = number
        return kept

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
        waiting = sum(group is not None for group in progress.ended.values())
        while len(progress.open) + waiting < (plan.lag + 1) * plan.groups:
            number = progress.admitted
            progress.admitted += 1
            index = progress.history.draw(self.recipe.sampler, generator(plan.seed, "task", number))
            seed = derive(plan.seed, "ticket", number)
            ticket = Ticket(number, index, plan.split, seed, plan.size, progress.update)
            progress.open[number] = ticket
            self._play(ticket)

    def _play(self, ticket: Ticket) -> None:
        self._playing.add(asyncio.get_running_loop().create_task(self._group(ticket)))

    async def _group(self, ticket: Ticket) -> None:
        progress = self.progress
        group = await self.recipe.strategy(self.player, ticket)
        for shape in self.recipe.shape:
            group.rewards = shape(group)
        del progress.open[ticket.number]
        for member in range(ticket.size):
            progress.finished.pop(f"{ticket.number}/{member}", None)
        progress.recent.append(group)
        usable = bool(group.trajectories) and self.recipe.keep(group)
        if group.trajectories:
            rewards = [trajectory.reward for trajectory in group.trajectories]
            progress.history.record(ticket.index, sum(rewards) / len(rewards))
        progress.ended[ticket.number] = group if usable else None
        progress.refused = 0 if usable else progress.refused + 1
        if not usable:
            self._complain()
            self._admit()
        self._news.set()

    def _complain(self) -> None:
        """Stop a run in which nothing is left to train on."""
        recent = self.progress.recent[-self.progress.refused :]
        errors = [t.error for group in recent for t in group.errored if not group.trajectories]
        if errors and all(not group.trajectories for group in recent) and len(recent) >= min(self.plan.groups, 4):
            raise TrainingStopped(f"every episode fails: {errors[-1]}")
        if self.progress.refused >= REFUSALS * self.plan.groups:
            rewards = sorted({trajectory.reward for group in recent for trajectory in group.trajectories})
            shown = ", ".join(f"{reward:g}" for reward in rewards[:3]) + (", ..." if len(rewards) > 3 else "")
            raise TrainingStopped(
                f"0 of the last {self.progress.refused} groups were kept; rewards were {shown}: "
                "the tasks are too easy or too hard for the policy, or --size is too small for rewards to differ"
            )


def measured(recent: list[Group], kept: list[Group], seen: dict[str, float]) -> dict[str, float]:
    """The metrics of `docs/metrics.md` that come from records. Rewards are of all groups, before `keep` and shaping."""
    played = [trajectory for group in recent for trajectory in group.trajectories]
    turns = [turn for trajectory in played for turn in trajectory.turns]
    n = max(len(played), 1)
    varied = [len({trajectory.reward for trajectory in group.trajectories}) > 1 for group in recent]
    found = {
        "reward/mean": sum(t.reward for t in played) / n,
        "success/mean": sum(t.success for t in played) / n,
        "episodes/played": float(len(played)),
        "episodes/errored": float(sum(len(group.errored) for group in recent)),
        "groups/kept": float(len(kept)),
        "groups/played": float(len(recent)),
        "groups/zero_variance": 1 - sum(varied) / max(len(varied), 1),
        "turns/mean": len(turns) / n,
        "turns/invalid": sum(not turn.valid for turn in turns) / max(len(turns), 1),
        "tokens/sampled": float(sum(t.num_sampled for t in played)),
        "tokens/reply": sum(len(turn.completion.ids) for turn in turns) / max(len(turns), 1),
        "truncated/mean": sum(t.stop not in ("terminated",) for t in played) / n,
        "truncated/tokens": sum(t.stop == "token_limit" for t in played) / n,
        "replies/cut": sum(turn.completion.finish == "length" for turn in turns) / max(len(turns), 1),
        "time/env_s": sum(turn.env_s for turn in turns),
    }
    names = sorted({name for turn in turns for name in turn.rewards})
    for name in names:
        found[f"rewards/{name}"] = sum(turn.rewards.get(name, 0.0) for turn in turns) / n
    return found | seen
