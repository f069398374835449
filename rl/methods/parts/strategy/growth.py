"""Groups that grow while they are played: members that begin as forks of others, as a plan decides.

A strategy over trees is a pure function, its plan: from what the members so far have played to the members that the
group shall have. `grow` calls it after every turn and plays what it returns; no member waits for a decision that does
not concern it. Because a plan reads records only, it decides the same in any order of events, and in a resumed run,
which calls it with the records of the interrupted one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from envs.types import Stop
from rl.records import Fork, Group, Ticket, Trajectory, Turn
from rl.rollout.episode import play_episode
from rl.rollout.retry import group_of, next_start, retry
from rl.rollout.runner import Runner
from rl.rollout.seat import Snapshot, Start


class MemberState(NamedTuple):
    """What a member has played so far, turns that it shares as a fork included."""

    turns: Sequence[Turn]
    done: bool  # no further turn will follow
    reward: float | None = None  # its return, if it is done and has not failed


Starts = dict[int, Fork | None]  # members by number: the fork that each begins as, None for one played from the start
Plan = Callable[[Mapping[int, MemberState]], Mapping[int, Fork | None]]


async def grow(runner: Runner, ticket: Ticket, plan: Plan) -> list[Group]:
    """Play the members that `plan` returns, each as its fork or from the start, until all are done.

    `plan(states)` receives what each member it has returned before has played so far, by number, and returns how each
    member begins: the fork (another member and how many of its turns), or None for the start. Members are numbered from
    0 to below `ticket.size`. As they play on, the plan may return further members, but must return the same forks for
    the earlier ones, and may fork a member at no more turns than its state has. Raises `ValueError` otherwise.
    """
    async with asyncio.TaskGroup() as tasks:
        tree = _Tree(runner, ticket, plan, tasks)
        tree.extend()
    return [group_of(ticket, [tree.attempts[member] for member in sorted(tree.attempts)])]


class _Tree:
    """The members of one group under way."""

    def __init__(self, runner: Runner, ticket: Ticket, plan: Plan, tasks: asyncio.TaskGroup) -> None:
        self.runner, self.ticket, self.plan, self.tasks = runner, ticket, plan, tasks
        self.starts: dict[int, Start] = {}
        self.attempts: dict[int, list[Trajectory]] = {}
        self.failures: set[int] = set()  # members whose attempts have all failed
        self.turns: dict[int, Sequence[Turn]] = {}  # of the latest attempt at each member
        self.snapshots: dict[Fork, Snapshot] = {}

    def extend(self) -> None:
        """Begin to play every member that the plan now adds."""
        new: list[int] = []
        while len(self.starts) < self.ticket.size:
            forks = self.plan({member: self._state(member) for member in self.starts})
            additions = sorted(forks.keys() - self.starts.keys())
            if not additions:
                break
            for member in additions:
                self.starts[member] = self._start(forks[member])
            new += additions
        # In order, and before any of them is played: so a resumed run calls its policy in the order of the first one.
        for member in sorted(new):
            self.attempts[member] = []
            self.tasks.create_task(self._play(member))

    def _start(self, fork: Fork | None) -> Start:
        if fork is None:
            return Start()
        turns = self._state(fork.member).turns
        if len(turns) < fork.turns:
            raise ValueError(f"cannot fork member {fork.member} after {fork.turns} turns: it has {len(turns)}")
        context = turns[fork.turns].context if len(turns) > fork.turns else None
        return Start(turns[: fork.turns], fork, context, self.snapshots.get(fork))

    def _state(self, member: int) -> MemberState:
        state, session = self.runner.play_state, self.ticket.session(member)
        if (record := state.result(session)) is not None:
            return MemberState(record.turns, True, record.reward)
        if member in self.failures:
            return MemberState(max((record.turns for record in self.attempts[member]), key=len), True)
        to_replay = state.turns_to_replay(session)
        # The longest: each of these begins like the others.
        turns = max(self.starts[member].turns, to_replay, self.turns.get(member, ()), key=len)
        return MemberState(turns, False)

    async def _play(self, member: int) -> None:
        first = self.starts[member]

        def play(failures: Sequence[Trajectory]) -> Coroutine[Any, Any, Trajectory]:
            start = next_start(first, failures)
            return play_episode(self.runner, self.ticket, member, start=start, on_turn=partial(self._on_turn, member))

        self.attempts[member] = await retry(play, self.runner, self.ticket, member)
        if self.attempts[member][-1].stop == Stop.ERROR:
            self.failures.add(member)
        self.extend()

    def _on_turn(self, member: int, snapshot: Snapshot | None) -> None:
        turns = self.turns[member] = self.runner.play_state.turns(self.ticket.session(member))
        if snapshot is not None:
            self.snapshots[Fork(member, len(turns))] = snapshot
        self.extend()
