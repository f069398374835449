"""How the rollout plays an environment: who is asked, and what the environment answers to the seats that it asks.

A table has one seat for an environment of one agent, and the runner's `seats` for one of several. Both are played by
the same code (`rl.rollout.episode`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, cast

import gymnasium

from envs.step_info import StepInfo
from envs.types import Message
from rl.records import Ticket
from rl.rollout.game_rounds import GameRounds
from rl.rollout.runner import Runner
from rl.rollout.seat import Seat, Snapshot
from rl.rollout.turn_records import Step
from rl.rollout.workers.errors import Unsendable
from rl.rollout.workers.far_env import is_far

if TYPE_CHECKING:  # imports PettingZoo
    from envs.multi.multi_env import MultiEnv


class Table(Protocol):
    """An environment that is being played.

    `reset` and `step` return a step for each seat that is asked next, and for each whose episode has ended. The reward
    of a step is what the seat has earned since its last reply.
    """

    async def reset(self) -> dict[str, Step]:
        """Begin the episode."""
        ...

    async def step(self, replies: Mapping[str, Message]) -> dict[str, Step]:
        """Give the replies of the seats that were asked; one without a reply is silent from then on."""
        ...


class SoloTable:
    """The table of an environment of one agent. A silent agent's episode is over.

    The answers to its first turns are `saved_steps`, if the environment has been restored to the turn after them.
    """

    def __init__(self, runner: Runner, ticket: Ticket, env: gymnasium.Env, seat: Seat) -> None:
        self.runner, self.ticket, self.env, self.seat = runner, ticket, env, seat
        self._saved_steps: list[Step] = []
        self._num_steps = 0

    async def reset(self) -> dict[str, Step]:
        """Begin the episode."""
        options = {"index": self.ticket.index, "split": self.ticket.split}
        messages, info = await self._call("reset of", self.env.reset, seed=self.ticket.seed, options=options)
        return {"agent": (messages, 0.0, False, False, info)}

    async def step(self, replies: Mapping[str, Message]) -> dict[str, Step]:
        """Give the reply of the agent; without one, give back what the episode holds."""
        if not replies:
            if release := getattr(self.env.unwrapped, "release", None):
                await self._call("release of", release)
            return {}
        self._num_steps += 1
        if self._num_steps <= len(self._saved_steps):
            return {"agent": self._saved_steps[self._num_steps - 1]}
        return {"agent": await self._call("step of", self.env.step, replies["agent"])}

    async def take_snapshot(self) -> Snapshot | None:
        """Return a snapshot before the next reply; None if the environment has none."""
        snapshot = getattr(self.env.unwrapped, "snapshot", None)
        if snapshot is None:
            return None
        try:
            state = await self._call("snapshot of", snapshot)
        except Unsendable:  # it stays in a worker, and the episode that would be forked from it is replayed
            return None
        return Snapshot(state, self.seat.messages, self.seat.info)

    async def restore_snapshot(self) -> None:
        """Restore the snapshot that the episode starts from, if there is use for one: it saves the steps before it."""
        snapshot, replay, start = self.seat.start.snapshot, self.seat.replay, self.seat.start
        # An interrupted run has recorded more turns than the start has, and a resumed one has no snapshot of them.
        if snapshot is None or len(replay) != len(start.turns):
            return
        restore = self.env.unwrapped.restore  # type: ignore[attr-defined]
        await self._call("restoring", restore, snapshot.state)
        infos: list[Mapping[str, Any]] = [*({"state": turn.state} for turn in replay[1:]), snapshot.info]
        observations = [*(turn.observation for turn in replay[1:]), snapshot.messages]
        for turn, messages, info in zip(replay, observations, infos, strict=True):
            if turn.internal:
                continue
            answer = {"rewards": dict(turn.rewards), "valid": turn.valid, "metrics": dict(turn.metrics)}
            self._saved_steps.append((messages, turn.reward, False, False, cast(StepInfo, {**info, **answer})))

    async def _call(self, what: str, function: Any, *args: Any, **kwargs: Any) -> Any:
        label = f"{what} {self.seat.label}"
        return await self.runner.call(self.env, self.ticket, label, function, *args, **kwargs)


class GameTable:
    """The table of an environment of several seats.

    The runner's seats are asked, those that move together at the same time; others say `""`, as does a seat from the
    first time on that it is asked and gives no reply (`GameRounds`), so that the others can finish.
    """

    def __init__(self, runner: Runner, ticket: Ticket, member: int, env: MultiEnv) -> None:
        self.runner, self.ticket, self.env = runner, ticket, env
        self.label = f"task {ticket.split}/{ticket.index} seed {ticket.seed} member {member}"
        self._rounds: Any = None

    async def reset(self) -> dict[str, Step]:
        """Begin the episode."""
        if is_far(self.env):
            self._rounds = await self._call("beginning of", GameRounds, self.env, self.runner.seats)
        else:
            self._rounds = GameRounds(self.env, self.runner.seats)
        options = {"index": self.ticket.index, "split": self.ticket.split}
        return await self._call("reset of", self._rounds.reset, seed=self.ticket.seed, options=options)

    async def step(self, replies: Mapping[str, Message]) -> dict[str, Step]:
        """Give the replies of the seats that were asked."""
        return await self._call("step of", self._rounds.step, replies)

    async def current(self, seat: str) -> Step | None:
        """Return what a seat would be told now, if its episode is not over: what it has earned since its last reply."""
        return await self._call("state of", self._rounds.current, seat)

    async def _call(self, what: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return await self.runner.call(self.env, self.ticket, f"{what} {self.label}", function, *args, **kwargs)
