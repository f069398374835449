"""Groups with spare members, so that what fails for reasons of the infrastructure leaves no group incomplete."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Literal

from envs.types import Stop
from rl.methods.options import Count
from rl.methods.parts import plays_seats
from rl.methods.parts.strategy.independent import play_member
from rl.records import Group, Ticket, Trajectory
from rl.rollout.faults import Match, exonerates_policy
from rl.rollout.retry import groups_by_seat
from rl.rollout.runner import Runner
from rl.rollout.timeouts import MemberTimeouts

NOT_NEEDED = "Unused: the group was complete without this episode"


@plays_seats
async def redundant(
    runner: Runner, ticket: Ticket, *, spares: Count = 1, mode: Literal["health", "ahead", "race"] = "health"
) -> list[Group]:
    """Redundant environments (ROLL Flash, arXiv:2510.11345): up to `spares` further members for those that fail.

    Members 0 to `ticket.size - 1` are the group. With `mode="health"`, one whose attempts have all failed gives its
    place to the next spare if no reply of its own can be the reason (`rl.rollout.faults.exonerates_policy`), never
    because another was faster. A spare begins when it is needed, so a group without faults costs nothing. `"ahead"`
    begins all spares with the group, uses the same ones, and throws the others away. A member has timeouts of its own:
    two of them end it and not its group. `"race"` deviates: it takes the members and spares that end first, which
    favours short episodes.
    """
    group = _Members(runner, ticket, ticket.size + spares)
    try:
        team = await (_first_to_end(group) if mode == "race" else _healthy(group, ahead=mode == "ahead"))
        rest = set(group.tasks) - set(team)
        failures = {member for member in rest if group.tasks[member].done() and _is_lost(group.tasks[member].result())}
        surplus = group.throw_away(rest - failures)
    finally:
        await group.close()
    attempts = {member: group.tasks[member].result() for member in sorted({*team, *failures})}
    for member in range(ticket.size, group.count):
        for trajectory in (one for match in attempts.get(member, ()) for one in match):
            trajectory.spare = "unused" if member in failures else "used"
    groups = groups_by_seat(runner, ticket, [*attempts.values()])
    groups[0].others += surplus
    return groups


class _Members:
    """The episodes of one group, spares included."""

    def __init__(self, runner: Runner, ticket: Ticket, count: int) -> None:
        self.runner, self.ticket, self.count = runner, ticket, count
        self.tasks: dict[int, asyncio.Task[list[Match]]] = {}

    def begin(self, members: Iterable[int]) -> None:
        """Begin to play those of `members` that are not being played."""
        for member in members:
            if member not in self.tasks:
                episode = play_member(_MemberRunner(self.runner), self.ticket, member)
                self.tasks[member] = asyncio.get_running_loop().create_task(episode)

    async def wait(self, members: Iterable[int]) -> list[int]:
        """Wait until one of `members` has ended; return all that have, in order, or raise what one of them raised."""
        await asyncio.wait([self.tasks[member] for member in members], return_when=asyncio.FIRST_COMPLETED)
        results = [member for member in sorted(members) if self.tasks[member].done()]
        for member in results:
            self.tasks[member].result()
        return results

    def throw_away(self, members: Iterable[int]) -> list[Trajectory]:
        """End these members; return what there is of their last attempts, for each seat.

        It is their result from now on, so that a run that is resumed before the group is closed has it too.
        """
        surplus: list[Trajectory] = []
        for member in sorted(members):
            for seat in self.runner.seats:
                session = self.ticket.session(member, seat)
                trajectory = self.runner.play_state.result(session) or self._so_far(member, seat)
                trajectory.spare = "unused"
                self.runner.play_state.finish(session, trajectory)
                surplus.append(trajectory)
        return surplus

    def _so_far(self, member: int, seat: str) -> Trajectory:
        turns, reply = self.runner.play_state.in_flight(self.ticket.session(member, seat))
        task = f"{self.ticket.split}/{self.ticket.index}"
        record = Trajectory(list(turns), Stop.ERROR, False, task, self.ticket.seed, member, seat, error=NOT_NEEDED)
        record.player = self.runner.player(self.ticket, seat).name
        record.num_side_sampled = reply.num_sampled if reply else 0
        return record

    async def close(self) -> None:
        """Cancel what is still being played."""
        for task in self.tasks.values():
            task.cancel()
        await asyncio.gather(*self.tasks.values(), return_exceptions=True)


class _MemberRunner(Runner):
    """A runner that shares the state of `runner` but counts the timeouts of one member apart."""

    def __init__(self, runner: Runner) -> None:
        vars(self).update(vars(runner))
        self.runner, self.timeouts = runner, MemberTimeouts(runner.timeouts)
        self.take, self.put, self.discard = runner.take, runner.put, runner.discard  # type: ignore[method-assign]


async def _healthy(group: _Members, *, ahead: bool) -> list[int]:
    """Return the members and the spares whose turn it was. It depends on who fails, not on when.

    So many spares are used as members and spares have failed without a fault of the policy, in the order of numbers.
    """
    team = [*range(group.ticket.size)]
    group.begin(range(group.count) if ahead else team)
    waiting = {*team}
    while waiting:
        for member in await group.wait(waiting):
            waiting.remove(member)
            attempts = group.tasks[member].result()
            if len(team) < group.count and _is_lost(attempts) and exonerates_policy(attempts):
                team.append(len(team))
                waiting.add(team[-1])
                group.begin(team[-1:])
    return team


async def _first_to_end(group: _Members) -> list[int]:
    """Return as many as the group has members: those that end first, of the same moment those with lower numbers."""
    waiting = {*range(group.count)}
    team: list[int] = []
    group.begin(waiting)
    while waiting and len(team) < group.ticket.size:
        for member in await group.wait(waiting):
            waiting.remove(member)
            attempts = group.tasks[member].result()
            if not (_is_lost(attempts) or _is_unused(attempts)):
                team.append(member)
    return team[: group.ticket.size]


def _is_lost(attempts: list[Match]) -> bool:
    """Whether all attempts have failed."""
    return any(trajectory.stop == Stop.ERROR for trajectory in attempts[-1]) and not _is_unused(attempts)


def _is_unused(attempts: list[Match]) -> bool:
    """Whether the member was thrown away, which a resumed run has as its result."""
    return any(trajectory.spare == "unused" for trajectory in attempts[-1])
