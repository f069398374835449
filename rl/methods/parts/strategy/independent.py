"""Members that know nothing of one another."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from envs.types import Stop
from rl.records import Group, Ticket, Trajectory
from rl.rollout.episode import episode
from rl.rollout.runner import Player


async def independent(player: Player, ticket: Ticket) -> Group:
    """Play every member from the start, each on its own."""
    return gathered(ticket, await asyncio.gather(*(attempts(player, ticket, member) for member in range(ticket.size))))


async def attempts(player: Player, ticket: Ticket, member: int) -> list[Trajectory]:
    """Every attempt at one member: errored ones, and at most one that ended properly."""
    tried: list[Trajectory] = []
    for _ in range(1 + player.retries):
        tried.append(await episode(player, ticket, member))
        if tried[-1].stop != Stop.ERROR:
            break
    return tried


def gathered(ticket: Ticket, tried: Iterable[Iterable[Trajectory]]) -> Group:
    """The group of all attempts, member by member."""
    ended = [attempt for attempts in tried for attempt in attempts]
    return Group(
        ticket=ticket,
        trajectories=[trajectory for trajectory in ended if trajectory.stop != Stop.ERROR],
        errored=[trajectory for trajectory in ended if trajectory.stop == Stop.ERROR],
    )
