"""Groups of members that are independent of each other."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence

from rl.methods.parts import plays_seats
from rl.records import Group, Ticket
from rl.rollout.episode import play_seats
from rl.rollout.faults import Match
from rl.rollout.retry import groups_by_seat, next_start, retry_seats
from rl.rollout.runner import Runner
from rl.rollout.seat import TASK_START, Start


@plays_seats
async def independent(runner: Runner, ticket: Ticket) -> list[Group]:
    """Play `ticket.size` members from the start, each on its own, each retried up to `runner.retries` times.

    `ticket` names the task, the seed and how many times (members) it is played. There is one group for each seat that
    the policy plays: a seat's returns are compared with those of the same seat in the other members. Attempts that
    failed are in the groups' `errored`.
    """
    return groups_by_seat(runner, ticket, await play_members(runner, ticket, range(ticket.size)))


async def play_members(
    runner: Runner, ticket: Ticket, members: Iterable[int], starts: Mapping[tuple[int, str], Start] | None = None
) -> list[list[Match]]:
    """Play these members of a ticket, each on its own; return the attempts of each, in order.

    `starts` says how seats of members begin, by member and seat; others begin at the start.
    """
    return await asyncio.gather(*(play_member(runner, ticket, member, starts) for member in members))


async def play_member(
    runner: Runner, ticket: Ticket, member: int, starts: Mapping[tuple[int, str], Start] | None = None
) -> list[Match]:
    """Play one member of a ticket; return its attempts in order, of which all but the last have failed."""
    firsts = starts or {}

    def attempt(failures: Sequence[Match]):  # type: ignore[no-untyped-def]
        if not failures and not firsts:
            return play_seats(runner, ticket, member)
        own = {
            name: next_start(firsts.get((member, name), TASK_START), [failure[seat] for failure in failures])
            for seat, name in enumerate(runner.seats)
        }
        return play_seats(runner, ticket, member, starts=own)

    return await retry_seats(attempt, runner, ticket, member)
