"""Single turns of an expert's record, each a task of its own."""

from __future__ import annotations

from envs.types import Message
from rl.methods.parts.strategy.expert import Answer, Following, Led, recorded
from rl.methods.parts.strategy.independent import independent
from rl.records import Group, Ticket
from rl.rollout.runner import Runner
from rl.seeds import generator


async def pivot(runner: Runner, ticket: Ticket) -> Group:
    """PivotRL (arXiv:2603.21383): one turn, drawn from a record of the environment's oracle on the same ticket.

    All members read the recorded history up to that turn and reply once. A reply earns 1 if it does what the expert's
    did, however worded, else 0.
    """
    expert = await recorded(runner, ticket)
    if expert.error:
        return Group(ticket, [], [expert])
    turn = int(generator(ticket.seed, "pivot").integers(len(expert.turns)))
    return await independent(Following(runner, lambda env: _Turn(env, expert, turn)), ticket)


class _Turn(Led):
    """The expert's episode from one turn on, and over after it."""

    def step(self, action: Message | str) -> Answer:  # type: ignore[override]
        """Give the one reply."""
        answer = self.env.step(action)
        messages, _, _, _, told = answer
        matched = self.does_the_same(self.turn, answer)
        told = {**told, "rewards": {}, "stop": "terminated", "success": matched}
        return messages, float(matched), True, False, told
