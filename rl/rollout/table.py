"""How the rollout plays an environment: who is asked, and what the environment answers to the seats that it asks.

A table has one seat for an environment of one agent, and the runner's `seats` for one of several. Both are played by
the same code (`rl.rollout.episode`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, cast

import gymnasium

from envs.step_info import StepInfo
from envs.types import Message, assistant
from rl.records import Ticket
from rl.rollout.runner import Runner
from rl.rollout.seat import Seat, Snapshot
from rl.rollout.turn_records import Step

if TYPE_CHECKING:  # imports PettingZoo
    from envs.multi.multi_env import MultiEnv

SILENCE = assistant("")


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
        return Snapshot(await self._call("snapshot of", snapshot), self.seat.messages, self.seat.info)

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

    The runner's seats are asked, those that move together at the same time; others say `""`. So does, from then on, a
    seat that is asked and gives no reply: it is not asked again, so that the others can finish; what it earns or loses
    by that is still its own.
    """

    def __init__(self, runner: Runner, ticket: Ticket, member: int, env: MultiEnv) -> None:
        self.runner, self.ticket, self.env = runner, ticket, env
        self.label = f"task {ticket.split}/{ticket.index} seed {ticket.seed} member {member}"
        self._asked_seats = set(runner.seats)
        self._silent_rewards: dict[str, float] = {}  # of seats that are silent, since their last reply

    async def reset(self) -> dict[str, Step]:
        """Begin the episode."""
        return await self._call("reset of", self._reset)

    async def step(self, replies: Mapping[str, Message]) -> dict[str, Step]:
        """Give the replies of the seats that were asked."""
        for seat in self.env.to_move:
            if seat in self._asked_seats and seat not in replies:
                self._asked_seats.discard(seat)
                self._silent_rewards[seat] = -self.env._cumulative_rewards[seat]  # is known to the seat already
        return await self._call("step of", self._step, replies)

    def current(self, seat: str) -> Step | None:
        """Return what a seat would be told now, if its episode is not over: what it has earned since its last reply."""
        return self._observe(seat) if seat in self.env.agents else None

    async def _call(self, what: str, function: Callable[..., dict[str, Step]], *args: Any) -> dict[str, Step]:
        return await self.runner.call(self.env, self.ticket, f"{what} {self.label}", function, *args)

    def _reset(self) -> dict[str, Step]:
        self.env.reset(seed=self.ticket.seed, options={"index": self.ticket.index, "split": self.ticket.split})
        return self._play_on()

    def _step(self, replies: Mapping[str, Message]) -> dict[str, Step]:
        self._play_round(replies)
        return self._play_on()

    def _play_on(self) -> dict[str, Step]:
        """Play until a seat is asked or all is over; return the steps of the seats that are asked or have ended."""
        env, steps = self.env, {}
        while True:
            while env.agents and (env.terminations[env.agent_selection] or env.truncations[env.agent_selection]):
                seat = env.agent_selection
                steps[seat] = self._observe(seat)
                env.step(None)
            movers = [seat for seat in env.to_move if seat in self._asked_seats]
            if movers or not env.agents:
                steps |= {seat: self._observe(seat) for seat in movers}
                return {seat: step for seat, step in steps.items() if seat in self.runner.seats}
            self._play_round({})

    def _play_round(self, replies: Mapping[str, Message]) -> None:
        for seat in self.env.to_move:
            if seat in self._silent_rewards:
                self._silent_rewards[seat] += self.env._cumulative_rewards[seat]
            self.env.step(replies.get(seat, SILENCE))

    def _observe(self, seat: str) -> Step:
        env, info = self.env, cast(StepInfo, dict(self.env.infos[seat]))
        reward = env._cumulative_rewards[seat] + self._silent_rewards.get(seat, 0.0)
        return env.observe(seat), reward, env.terminations[seat], env.truncations[seat], info
