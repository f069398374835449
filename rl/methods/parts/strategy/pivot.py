"""Single turns of an expert's episode, each a task of its own."""

from __future__ import annotations

from envs.types import Message
from rl.methods.parts.strategy.expert import ExpertEnv, Step, WrappingRunner, record_expert
from rl.methods.parts.strategy.independent import independent
from rl.records import Group, Ticket
from rl.rollout.runner import Runner
from rl.seeds import generator


async def pivot(runner: Runner, ticket: Ticket) -> list[Group]:
    """PivotRL (arXiv:2603.21383): one turn, drawn from an episode of the environment's oracle on the same ticket.

    All members read the expert's history up to that turn and reply once. The reward is 1 if the reply does what the
    expert's did, however it is worded, else 0. Without a successful expert's episode the group has only an error.
    """
    expert = await record_expert(runner, ticket)
    if expert.error:
        return [Group(ticket, [], [expert])]
    turn = int(generator(ticket.seed, "pivot").integers(len(expert.turns)))
    return await independent(WrappingRunner(runner, lambda env: _OneTurnEnv(env, expert, turn)), ticket)


class _OneTurnEnv(ExpertEnv):
    """The expert's episode from one turn on; it ends after that turn."""

    def step(self, action: Message | str) -> Step:  # type: ignore[override]
        """Compare the only reply with the expert's."""
        result = self.env.step(action)
        messages, _, _, _, info = result
        is_match = self.matches_expert(self.turn, result)
        info = {**info, "rewards": {}, "stop": "terminated", "success": is_match}
        return messages, float(is_match), True, False, info
