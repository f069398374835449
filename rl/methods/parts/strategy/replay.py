"""Recorded successes that join groups in which members failed, and that say how long an episode may be."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

from agents.agent import Agent, Context, Internal
from envs.types import Message
from rl.cli import one_line
from rl.methods.options import AboveOne, Count, PartError
from rl.methods.parts import plays_seats
from rl.methods.parts.strategy.independent import independent
from rl.records import Group, Ticket, Trajectory
from rl.rollout.record_codec import decode, encode
from rl.rollout.runner import Runner
from rl.seeds import generator

Task = tuple[str, int] | tuple[str, int, str]  # split and index, and the seat where there are several


class _Success(NamedTuple):
    """A success: the number of its ticket, the policy version then, and the trajectory as JSON.

    Text gives a fresh copy at every use, and costs nothing where the state of a run is copied at every update.
    """

    ticket: int
    version: int
    record: str


@plays_seats
@dataclass
class replay:
    """RLEP (arXiv:2507.07451): `added` recorded successes of the same task join a group that failed.

    With `when="failed"` they join where no member succeeded, with `"unsolved"` where any member failed. The `keep`
    latest successes of each task are remembered as they were sampled: importance ratios come from their own
    log-probabilities. They are marked `replayed` and follow the members that were played. A success is not used

    - if a member of the group has sampled the same replies,
    - before an update has used up its own group,
    - more than `oldest` policy versions after its ticket,
    - where the task begins with another prompt than it did then.
    """

    added: Count = 1
    keep: Count = 4
    oldest: Count = 100
    when: Literal["failed", "unsolved"] = "failed"
    _successes: dict[Task, list[_Success]] = field(default_factory=dict, init=False)
    _open_tickets: dict[int, Ticket] = field(default_factory=dict, init=False)  # of groups that are being played

    async def __call__(self, runner: Runner, ticket: Ticket) -> list[Group]:
        """Play every member from the start, then add recorded successes."""
        self._open_tickets[ticket.number] = ticket
        try:
            groups = await independent(runner, ticket)
            for group in groups:
                self._add(group)
        finally:
            del self._open_tickets[ticket.number]
        return groups

    def state_dict(self) -> dict[str, Any]:
        """The remembered successes as `{"kept": {(split, index): [(ticket, version, trajectory as JSON), ...]}}`."""
        return {"kept": {task: [tuple(one) for one in successes] for task, successes in self._successes.items()}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore `state_dict()`."""
        self._successes = {task: [_Success(*one) for one in successes] for task, successes in state["kept"].items()}

    def _add(self, group: Group) -> None:
        """Add recorded successes to `group` where it needs them, then remember its own."""
        ticket, members = group.ticket, list(group.trajectories)
        seat = next((member.agent for member in members), "agent")
        task: Task = (ticket.split, ticket.index) if seat == "agent" else (ticket.split, ticket.index, seat)
        successes = self._successes.pop(task, [])
        own = [member for member in members if member.success]
        if members and len(own) < (1 if self.when == "failed" else len(members)):
            for place, record in enumerate(self._select(successes, ticket, members), ticket.size):
                addition = replace(record, member=place, replayed=True)
                group.trajectories.append(addition)
                group.rewards.append(addition.reward)
        successes += [_Success(ticket.number, ticket.version, _to_json(member)) for member in own[-self.keep :]]
        self._remember(task, sorted(successes, key=lambda one: one.ticket))

    def _select(self, successes: list[_Success], ticket: Ticket, members: list[Trajectory]) -> list[Trajectory]:
        """At most `added` of the successes that `ticket` may use, drawn by its seed."""
        usable = self._usable(successes, ticket)
        records = [
            decode(json.loads(usable[i].record)) for i in generator(ticket.seed, "replay").permutation(len(usable))
        ]
        replies, selection = {_sampled_ids(member) for member in members}, list[Trajectory]()
        for record in records:
            is_new = _first_prompt(record) == _first_prompt(members[0]) and _sampled_ids(record) not in replies
            if is_new and len(selection) < self.added:
                replies.add(_sampled_ids(record))
                selection.append(record)
        return selection

    def _usable(self, successes: list[_Success], ticket: Ticket) -> list[_Success]:
        """The latest of the successes that an update has used up and that are not too old for `ticket`."""
        usable = [one for one in successes if one.ticket < ticket.settled and self._is_recent(one, ticket)]
        return usable[-self.keep :]

    def _remember(self, task: Task, successes: list[_Success]) -> None:
        """Remember the successes that an open or a later ticket can still use; forget tasks that are too old."""
        first = self._open_tickets[min(self._open_tickets)]
        settled_successes = [one for one in successes if one.ticket < first.settled]
        usable = [one for one in settled_successes if self._is_recent(one, first)]
        if remaining := [*usable[-self.keep :], *successes[len(settled_successes) :]]:
            self._successes[task] = remaining
        while self._successes:  # tasks stand in the order in which they were last played
            oldest = next(iter(self._successes))
            if self._is_recent(self._successes[oldest][-1], first):
                break
            del self._successes[oldest]

    def _is_recent(self, success: _Success, ticket: Ticket) -> bool:
        return ticket.version - success.version <= self.oldest


def _to_json(trajectory: Trajectory) -> str:
    try:
        return json.dumps(encode(trajectory))
    except TypeError as error:
        raise PartError(f"--strategy replay: an episode cannot be recorded: {one_line(error)}") from None


def _sampled_ids(trajectory: Trajectory) -> tuple[tuple[int, ...], ...]:
    """The sampled tokens, turn by turn."""
    return tuple(turn.completion.ids for turn in trajectory.turns)


def _first_prompt(trajectory: Trajectory) -> tuple:
    return trajectory.turns[0].context, trajectory.turns[0].images


@plays_seats
@dataclass
class bounded_replay(replay):
    """DART-GUI (arXiv:2509.23866): `replay`, and episodes at most `slack` times as long as a task's past successes.

    The limit is `slack` times the turns of the longest success that the ticket may use (of any seat), rounded up, at
    least `shortest` and at most `longest`. A task without a success has `longest`. The environment's own limit of turns
    holds besides. An episode that reaches the limit is cut off with stop "turn_limit" and keeps what it was paid; turns
    that an agent keeps to itself do not count. The policy is not told of the limit, which may be below
    the one that an environment names; one that pays only at its own limit pays nothing for an episode that is cut.

    Attributes:
        slack: Limit of turns, as a multiple of the longest success.
        shortest: Least limit of turns.
        longest: Largest limit of turns.

    """

    slack: AboveOne = 1.5
    shortest: Count = 10
    longest: Count = 50

    def __post_init__(self) -> None:
        """Check the bounds. Raises `PartError` where they exclude each other."""
        if self.shortest > self.longest:
            raise PartError(
                f"--strategy bounded_replay: shortest={self.shortest} is above longest={self.longest}; "
                "give a shortest of at most longest"
            )

    async def __call__(self, runner: Runner, ticket: Ticket) -> list[Group]:
        """Play every member within the limit of the task, then add recorded successes."""
        return await super().__call__(_BoundedRunner(runner, self.limit(ticket)), ticket)

    def limit(self, ticket: Ticket) -> int:
        """The most turns of an episode of `ticket`. It depends on what updates had used up when it was admitted."""
        lengths = [
            len(decode(json.loads(success.record)).replies)
            for task, successes in self._successes.items()
            if task[:2] == (ticket.split, ticket.index)
            for success in self._usable(successes, ticket)
        ]
        if not lengths:
            return self.longest
        return min(max(math.ceil(self.slack * max(lengths) - 1e-9), self.shortest), self.longest)


class _BoundedRunner(Runner):
    """A runner that shares the state of `runner` and whose own agents end an episode after `limit` replies."""

    def __init__(self, runner: Runner, limit: int) -> None:
        vars(self).update(vars(runner))  # episodes under way are known to both
        self.take, self.put, self.discard = runner.take, runner.put, runner.discard  # type: ignore[method-assign]
        self.make_agent = lambda: _BoundedAgent(runner.make_agent(), limit)


class _BoundedAgent:
    """An agent that ends the episode after `limit` replies to the environment."""

    def __init__(self, agent: Agent, limit: int) -> None:
        self._agent, self._remaining = agent, limit

    @property
    def stop(self) -> tuple[int, ...]:
        """Token ids that end a reply."""
        return self._agent.stop

    def open(self, messages: Sequence[Message], tools: Sequence[dict] = ()) -> Context:
        """Start an episode."""
        return self._agent.open(messages, tools)

    def act(self, ids: Sequence[int]) -> Message | Internal:
        """Parse a reply, and count it where it goes to the environment."""
        reply = self._agent.act(ids)
        self._remaining -= not isinstance(reply, Internal)
        return reply

    def amend(self, message: Message) -> tuple[int, ...]:
        """Replace the last reply of the dialogue."""
        return self._agent.amend(message)

    def observe(self, messages: Sequence[Message]) -> Context:
        """Add the environment's messages, or end the episode."""
        return self._agent.observe(messages) if self._remaining > 0 else Context((), end=True)

    def demonstrate(self, reply: Message) -> Message:
        """Return the message that a demonstration writes next."""
        return self._agent.demonstrate(reply)
