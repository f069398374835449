"""The expert's episode itself, to be imitated."""

from __future__ import annotations

from typing import Any

from rl.methods.options import PartError
from rl.methods.parts.strategy.expert import record_expert
from rl.records import Group, Ticket
from rl.rollout.runner import Runner
from rl.rollout.scripted import tokenize


async def recorded(runner: Runner, ticket: Ticket) -> list[Group]:
    """Behaviour cloning, with `--surrogate nll`: the episode of the environment's oracle on the same ticket, alone.

    Its replies count as sampled, with log-probability 0; nothing is played by the policy. Without a successful expert's
    episode the group has only an error.
    """
    expert = await record_expert(runner, ticket)
    if expert.error:
        return [Group(ticket, [], [expert])]
    agent: Any = runner.make_agent()
    renderer = getattr(agent, "renderer", None)
    if renderer is None:
        raise PartError("--strategy recorded: the agent does not write tokens, so there is nothing to imitate")
    trajectory = tokenize(expert, agent, renderer.write)
    trajectory.player = "oracle"
    return [Group(ticket, [trajectory])]
