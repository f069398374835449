"""Groups that grow: members that begin as forks of others, as a plan decides while these are played.

A strategy over trees is a pure function, its plan: from what the members named so far have played to the members that
there shall be. `grow` asks it whenever there is news and plays what it names; nobody waits for a decision that is not
about them. As the plan reads records only, it decides the same in any order of events, and in a resumed run, which
asks it about the records of the interrupted one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from envs.types import Stop
from rl.records import Fork, Group, Ticket, Trajectory, Turn
from rl.rollout.episode import Snapshot, Start, play_episode
from rl.rollout.retry import group_of, retry
from rl.rollout.runner import Runner


class Grown(NamedTuple):
    """A member as far as it has been played, turns that it shares as a fork included; `ended` when none will follow."""

    turns: Sequence[Turn]
    ended: bool
    reward: float | None = None  # its return, if it has ended and has not failed


Plan = Callable[[Mapping[int, Grown]], Mapping[int, Fork | None]]


async def grow(runner: Runner, ticket: Ticket, plan: Plan) -> Group:
    """Play the members that `plan` names, each as the fork it says or from the start, until all have ended.

    Members are numbered from 0 to below `ticket.size`. The plan is given those it has named; as their turns become
    more it may name others, but says the same about these. It forks a member at no more turns than it has been shown.
    """
    async with asyncio.TaskGroup() as tasks:
        tree = _Tree(runner, ticket, plan, tasks)
        tree.extend()
    return group_of(ticket, [tree.attempts[member] for member in sorted(tree.attempts)])


class _Tree:
    def __init__(self, runner: Runner, ticket: Ticket, plan: Plan, tasks: asyncio.TaskGroup) -> None:
        self.runner, self.ticket, self.plan, self.tasks = runner, ticket, plan, tasks
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
        state, session = self.runner.play_state, self.ticket.session(member)
        if (record := state.result(session)) is not None:
            return Grown(record.turns, True, record.reward)
        if member in self.given_up:
            return Grown(max((record.turns for record in self.attempts[member]), key=len), True)
        resumed = state.turns_to_replay(session)
        # The longest: each begins like the others.
        return Grown(max(self.starts[member].turns, resumed, self.seen.get(member, ()), key=len), False)

    async def _play(self, member: int) -> None:
        start = self.starts[member]

        def play(errored: Trajectory | None) -> Coroutine[Any, Any, Trajectory]:
            nonlocal start
            if errored is not None:
                start = self._restart(member, start, errored)
            return play_episode(self.runner, self.ticket, member, start=start, on_turn=partial(self._on_turn, member))

        self.attempts[member] = await retry(play, self.runner.retries)
        if self.attempts[member][-1].stop == Stop.ERROR:
            self.given_up.add(member)
        self.extend()

    def _restart(self, member: int, start: Start, errored: Trajectory) -> Start:
        """Where the next attempt starts: forks of this member may rest upon turns that it played in the errored one."""
        if len(errored.turns) > len(start.turns):
            return replace(start, turns=errored.turns, context=None, snapshot=None)
        if len(errored.turns) < len(start.turns):
            return self.starts[member]  # the replay itself failed
        return start

    def _on_turn(self, member: int, snapshot: Snapshot | None) -> None:
        turns = self.seen[member] = self.runner.play_state.turns(self.ticket.session(member))
        if snapshot is not None:
            self.snapshots[Fork(member, len(turns))] = snapshot
        self.extend()
