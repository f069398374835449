"""Groups of members that are independent of each other."""

from __future__ import annotations

import asyncio

from rl.records import Group, Ticket, Trajectory
from rl.rollout.episode import Start, play_episode
from rl.rollout.retry import group_of, next_start, retry
from rl.rollout.runner import Runner


async def independent(runner: Runner, ticket: Ticket) -> Group:
    """Play `ticket.size` members from the start, each on its own, each retried up to `runner.retries` times.

    `ticket` names the task, the seed and how many times (members) it is played. Attempts that failed are in the group's
    `errored`.
    """

    async def play(member: int) -> list[Trajectory]:
        return await retry(
            lambda failures: play_episode(runner, ticket, member, start=next_start(Start(), failures)),
            runner,
            ticket,
            member,
        )

    return group_of(ticket, await asyncio.gather(*(play(member) for member in range(ticket.size))))
