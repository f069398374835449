"""Recorded successes that join groups of failures, and that say how long an episode of their task may be."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass

from agents.agent import Agent, Context, Internal
from envs.types import Message
from rl.methods.options import AboveOne, Count, PartError
from rl.methods.parts import plays_seats
from rl.methods.parts.strategy.replay import replay
from rl.records import Group, Ticket
from rl.rollout.record_codec import decode
from rl.rollout.runner import Runner


@plays_seats
@dataclass
class bounded_replay(replay):
    """DART-GUI (arXiv:2509.23866): `replay`, and episodes at most `slack` times as long as a task's past successes.

    The limit is `slack` times the turns of the longest success that the ticket may use (of any seat), rounded up, at
    least `shortest` and at most `longest`. A task without a success has `longest`. The environment's own limit of turns
    holds besides. An episode that reaches the limit is cut off with stop "turn_limit" and keeps what it was paid; turns
    that an agent keeps to itself do not count.

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
