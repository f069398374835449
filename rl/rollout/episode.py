"""Play an episode with a policy: token ids to the policy, messages to the environment, a `Trajectory` for each seat.

An environment of one agent has one seat. Any number of these coroutines run at the same time on one event loop, without
a barrier between them. An exception ends its own episode only, as `rl.rollout.retry` says.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

from envs.types import Stop
from rl.records import Ticket, Trajectory, Turn
from rl.rollout.faults import Suspicion, set_error
from rl.rollout.foreign_seats import make_seat
from rl.rollout.player import Player
from rl.rollout.runner import Runner
from rl.rollout.seat import TASK_START, Seat, Snapshot, Start
from rl.rollout.table import GameTable, SoloTable, Table
from rl.rollout.turn_records import is_success

if TYPE_CHECKING:  # imports PettingZoo
    from envs.multi.multi_env import MultiEnv

OnTurn = Callable[[Snapshot | None], None]


async def play_episode(
    runner: Runner, ticket: Ticket, member: int, *, start: Start | None = None, on_turn: OnTurn | None = None
) -> Trajectory:
    """Play `ticket` once as group member `member` in an environment of one agent; return its trajectory.

    This is `play_seats` with one seat, and two further arguments.

    Args:
        runner: Environments, agent, policy and limits.
        ticket: The task and its seed.
        member: Number within the group, below `ticket.size`.
        start: Turns to begin with; None for the start of the task. `rl.rollout.retry.next_start` returns that of an
            attempt after others.
        on_turn: Called after each new turn that is followed by another reply, with a snapshot of the environment, None
            if that has no method `snapshot`.

    Raises:
        ValueError: The runner has several seats.
    """
    if runner.seats != ("agent",):
        raise ValueError(f"this strategy plays one seat, not {', '.join(runner.seats)}")
    (trajectory,) = await _play(runner, ticket, member, {"agent": start or TASK_START}, on_turn)
    return trajectory


async def play_seats(
    runner: Runner, ticket: Ticket, member: int, *, starts: Mapping[str, Start] | None = None
) -> list[Trajectory]:
    """Play `ticket` once as group member `member`; return a trajectory for each of the runner's seats, in order.

    A ticket names a task, its seed and the number of members, the attempts that are compared with each other. The
    environment's seed is the ticket's. Sampling depends on the ticket's seed, `member`, the seat and `draw` of its
    start only, not on what else is played. A member that has finished (`PlayState.result`) is not played again.

    A seat that has no room or no time for another reply is cut off: its trajectory says so, and it says `""` from then
    on, while the others play to the end. What that earns it is added to its last turn. An error ends the episode for
    all: every trajectory has `Stop.ERROR`. Seats that `runner.lineup` gives to others have a trajectory too. A seat
    that was never asked has a trajectory without turns.

    Args:
        runner: Environments, agent, policy and limits. Its `play_state` is kept up to date for checkpoints.
        ticket: The task and its seed.
        member: Number within the group, below `ticket.size`.
        starts: Turns to begin with, by seat; seats without an entry begin at the start of the task.
    """
    return await _play(runner, ticket, member, starts or {}, None)


async def _play(
    runner: Runner, ticket: Ticket, member: int, starts: Mapping[str, Start], on_turn: OnTurn | None
) -> list[Trajectory]:
    sessions, state = [ticket.session(member, name) for name in runner.seats], runner.play_state
    results = [state.result(session) for session in sessions]
    if all(results):
        return cast(list[Trajectory], results)
    trajectories = [
        Trajectory([], Stop.ERROR, seed=ticket.seed, member=member, agent=name, fork=starts.get(name, TASK_START).fork)
        for name in runner.seats
    ]
    players = [runner.player(ticket, name) for name in runner.seats]
    for trajectory, player in zip(trajectories, players, strict=True):
        trajectory.player = player.name
    attempt, env = None, None
    try:
        env = runner.take(fresh=any(start.has_fault for start in starts.values()))
        seats = [
            make_seat(runner, ticket, trajectory, starts.get(trajectory.agent, TASK_START), player, env)
            for trajectory, player in zip(trajectories, players, strict=True)
        ]
        attempt = _Attempt(runner, ticket, env, seats, on_turn)
        await attempt.play()
        runner.put(env)
        for session, trajectory in zip(sessions, trajectories, strict=True):
            state.finish(session, trajectory)
    except BaseException as error:
        if env is not None:
            runner.discard(env)
        if not isinstance(error, Exception):
            raise
        _end_with_error(trajectories, attempt, _first(error))
    finally:
        for session, player in zip(sessions, players, strict=True):
            state.stop(session)
            if isinstance(player, Player):
                player.policy.release(session)
    return trajectories


class _Attempt:
    """One attempt at an episode, which fills the trajectories of its seats."""

    def __init__(self, runner: Runner, ticket: Ticket, env: Any, seats: list[Seat], on_turn: OnTurn | None) -> None:
        self.runner, self.seats, self.on_turn = runner, {seat.trajectory.agent: seat for seat in seats}, on_turn
        self.solo = SoloTable(runner, ticket, env, seats[0]) if runner.seats == ("agent",) else None
        member = seats[0].trajectory.member
        self.table: Table = self.solo or GameTable(runner, ticket, member, cast("MultiEnv", env))
        self._num_steps = 0

    async def play(self) -> None:
        """Play to the end. Raises whatever goes wrong."""
        steps = await self.table.reset()
        start_time = self.runner.clock.now()
        movers = [self.seats[name] for name in steps]
        for seat in movers:
            seat.read(steps[seat.trajectory.agent])
        if self.solo:
            await self.solo.restore_snapshot()
        is_over = False
        while not is_over:
            replies = await self._ask(movers, start_time)
            with self._suspicion(replies):
                messages = {name: turn.reply for name, turn in replies.items() if turn.reply is not None}
                steps = await self.table.step(messages)
                self._num_steps += 1
                movers = [self.seats[name] for name in steps if self._answer(self.seats[name], steps[name])]
            is_over = not movers

    async def _ask(self, movers: list[Seat], start_time: float) -> dict[str, Turn]:
        """Sample until each seat has a reply for the environment, or is cut off; return the replies by seat.

        Before it, a seat may give replies that its agent keeps. Seats that have replied wait for the others.
        """
        replies: dict[str, Turn] = {}
        while movers:
            movers = [seat for seat in movers if seat.extend_prompt(start_time)]
            await self._report_turn(movers)
            speakers, movers = await self._sample(movers), []
            for seat in speakers:
                turn = seat.pending
                assert turn is not None
                turn.step = None if self.solo else self._num_steps
                with self._suspicion({seat.trajectory.agent: turn}):
                    if seat.act():
                        replies[seat.trajectory.agent] = turn
                    else:
                        movers.append(seat)
        return replies

    def _suspicion(self, replies: Mapping[str, Turn]) -> Suspicion:
        """Hold these replies, by seat, responsible for what goes wrong, but for those that an opponent gave."""
        seats = [self.seats[name] for name in replies]
        return Suspicion(
            [(s.trajectory, t) for s, t in zip(seats, replies.values(), strict=True) if not s.player.is_opponent]
        )

    async def _report_turn(self, movers: list[Seat]) -> None:
        if self.solo and self.on_turn is not None and movers:
            turns = len(self.solo.seat.trajectory.turns)
            if turns and turns >= len(self.solo.seat.replay):
                self.on_turn(await self.solo.take_snapshot())

    async def _sample(self, movers: list[Seat]) -> list[Seat]:
        """Sample the replies of all seats that are asked at the same time; return those that have replied."""
        if len(movers) <= 1 or all(seat.is_replaying for seat in movers):
            return [seat for seat in movers if await seat.sample()]  # without giving way to others, as a replay must
        async with asyncio.TaskGroup() as tasks:
            replies = [tasks.create_task(seat.sample()) for seat in movers]
        return [seat for seat, reply in zip(movers, replies, strict=True) if reply.result()]

    @staticmethod
    def _answer(seat: Seat, step: Any) -> bool:
        """Hand a step to its seat; return whether the seat is asked for another reply."""
        messages, reward, terminated, truncated, info = step
        is_over = terminated or truncated
        if seat.pending is not None:
            seat.record(step)
        elif is_over and seat.trajectory.turns:  # it was cut off before
            seat.trajectory.turns[-1].reward += float(reward)
            seat.trajectory.final = tuple(messages)
            seat.trajectory.success = is_success(info, terminated, seat.trajectory.reward)
        elif is_over:  # it was never asked
            seat.trajectory.stop, seat.trajectory.unasked_reward = Stop.TERMINATED, float(reward)
            seat.trajectory.final = tuple(messages)
            seat.trajectory.success = is_success(info, terminated, seat.trajectory.reward)
            seat.trajectory.task = seat.trajectory.task or str(info.get("task", ""))
        if is_over:
            return False
        seat.read(step)
        return True


def _first(error: Exception) -> Exception:
    """The first exception in a group of exceptions, of seats that sampled together; any other as it is."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error


def _end_with_error(trajectories: list[Trajectory], attempt: _Attempt | None, error: Exception) -> None:
    """Mark an attempt as ended by `error`, for all seats.

    A seat that has replied and waits for others is no suspect, but its reply is kept for the next attempt. All seats
    draw anew where one of them finds that the environment does not repeat itself.
    """
    seats = attempt.seats if attempt else {}
    has_diverged = any(seat.has_diverged for seat in seats.values())
    for trajectory in trajectories:
        is_waiting = trajectory.fault is None and not trajectory.redraw
        if is_waiting and not has_diverged and (seat := seats.get(trajectory.agent)):
            trajectory.fault = seat.pending
        set_error(trajectory, error, is_waiting=is_waiting and trajectory.fault is not None)
        if has_diverged:
            trajectory.redraw, trajectory.fault = True, None
