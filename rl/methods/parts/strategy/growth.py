"""Groups that grow: members that begin as forks of others, as a plan decides while these are played.

A strategy over trees is a pure function, its plan: from what the members named so far have played to the members that
there shall be. `grow` asks it whenever there is news and plays what it names; nobody waits for a decision that is not
about them. As the plan reads records only, it decides the same in any order of events, and in a resumed run, which
asks it about the records of the interrupted one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from envs.types import Stop
from rl.methods.parts.strategy.independent import gathered
from rl.records import Fork, Group, Ticket, Trajectory, Turn
from rl.rollout.episode import Snapshot, Start, episode
from rl.rollout.runner import Player


class Grown(NamedTuple):
    """A member as far as it has been played, turns that it shares as a fork included; `ended` when none will follow."""

    turns: Sequence[Turn]
    ended: bool
    reward: float | None = None  # its return, if it has ended and has not failed


Plan = Callable[[Mapping[int, Grown]], Mapping[int, Fork | None]]


async def grow(player: Player, ticket: Ticket, plan: Plan) -> Group:
    """Play the members that `plan` names, each as the fork it says or from the start, until all have ended.

    Members are numbered from 0 to below `ticket.size`. The plan is given those it has named; as their turns become
    more it may name others, but says the same about these. It forks a member at no more turns than it has been shown.
    """
    async with asyncio.TaskGroup() as tasks:
        tree = _Tree(player, ticket, plan, tasks)
        tree.extend()
    return gathered(ticket, [tree.attempts[member] for member in sorted(tree.attempts)])


class _Tree:
    def __init__(self, player: Player, ticket: Ticket, plan: Plan, tasks: asyncio.TaskGroup) -> None:
        self.player, self.ticket, self.plan, self.tasks = player, ticket, plan, tasks
        self.starts: dict[int, Start] = {}
        self.attempts: dict[int, list[Trajectory]] = {}
        self.given_up: set[int] = set()
        self.seen: dict[int, Sequence[Turn]] = {}
        self.snapshots: dict[Fork, Snapshot] = {}

    def extend(self) -> None:
        """Begin to play every member that the plan has come to name."""
        new: list[int] = []
        while len(self.starts) < self.ticket.size:
            named = self.plan({member: self._grown(member) for member in self.starts})
            found = sorted(named.keys() - self.starts.keys())
            if not found:
                break
            for member in found:
                self.starts[member] = self._start(named[member])
            new += found
        # In order, and before any of them is played: so a resumed run asks its policy in the order of the first one.
        for member in sorted(new):
            self.attempts[member] = []
            self.tasks.create_task(self._play(member))

    def _start(self, fork: Fork | None) -> Start:
        if fork is None:
            return Start()
        turns = self._grown(fork.member).turns
        if len(turns) < fork.turns:
            raise ValueError(f"a fork after turn {fork.turns} of member {fork.member}, which has had {len(turns)}")
        context = turns[fork.turns].context if len(turns) > fork.turns else None
        return Start(turns[: fork.turns], fork, context, self.snapshots.get(fork))

    def _grown(self, member: int) -> Grown:
        player, session = self.player, f"{self.ticket.number}/{member}"
        if session in player.finished:
            record = player.finished[session]
            return Grown(record.turns, True, record.reward)
        if member in self.given_up:
            return Grown(max((record.turns for record in self.attempts[member]), key=len), True)
        resumed, _ = player.resumed.get(session, ((), None))
        # The longest: each begins like the others.
        return Grown(max(self.starts[member].turns, resumed, self.seen.get(member, ()), key=len), False)

    async def _play(self, member: int) -> None:
        first = start = self.starts[member]
        onward = partial(self._onward, member)
        for _ in range(1 + self.player.retries):
            record = await episode(self.player, self.ticket, member, start=start, onward=onward)
            self.attempts[member].append(record)
            if record.stop != Stop.ERROR:
                break
            # Others may rest upon what it has said: that is played again, unless it was the playing again that failed.
            if len(record.turns) > len(start.turns):
                start = replace(start, turns=record.turns, context=None, snapshot=None)
            elif len(record.turns) < len(start.turns):
                start = first
        else:
            self.given_up.add(member)
        self.extend()

    def _onward(self, member: int, snapshot: Snapshot | None) -> None:
        turns = self.seen[member] = list(self.player.live[f"{self.ticket.number}/{member}"])
        if snapshot is not None:
            self.snapshots[Fork(member, len(turns))] = snapshot
        self.extend()
