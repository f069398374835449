"""How a ticket becomes a group: `async (player, ticket) -> Group`. A strategy decides which episodes are played."""

from __future__ import annotations

import asyncio

from envs.types import Stop
from rl.player import Player
from rl.records import Group, Ticket, Trajectory
from rl.rollout import episode


async def independent(player: Player, ticket: Ticket) -> Group:
    """Play every member from the start, each on its own."""
    played = await asyncio.gather(*(_with_retries(player, ticket, member) for member in range(ticket.size)))
    ended = [attempt for attempts in played for attempt in attempts]
    return Group(
        ticket=ticket,
        trajectories=[trajectory for trajectory in ended if trajectory.stop != Stop.ERROR],
        errored=[trajectory for trajectory in ended if trajectory.stop == Stop.ERROR],
    )


async def _with_retries(player: Player, ticket: Ticket, member: int) -> list[Trajectory]:
    """Every attempt at one member: errored ones, and at most one that ended properly."""
    attempts: list[Trajectory] = []
    for _ in range(1 + player.retries):
        attempts.append(await episode(player, ticket, member))
        if attempts[-1].stop != Stop.ERROR:
            break
    return attempts
