"""Parts of an episode as trajectories of their own: the turns of one role, or one call of a sub-agent.

Tokens of turns that a part leaves out stand in its contexts, so that its replies keep the prompts that they answered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from envs.types import Message
from rl.records import Trajectory, Turn


def speaker(trajectory: Trajectory, turn: Turn) -> str:
    """Return who gave a reply: the role that the agent asked for it, behind the seat's name where there are seats.

    It is the trajectory's own agent for a reply without a role.
    """
    if not turn.role:
        return trajectory.agent
    return turn.role if trajectory.agent == "agent" else f"{trajectory.agent}.{turn.role}"


def roles_of(trajectory: Trajectory) -> dict[str, list[int]]:
    """Return the turns of each speaker, by index, in the order in which they speak first."""
    roles: dict[str, list[int]] = {}
    for index, turn in enumerate(trajectory.turns):
        roles.setdefault(speaker(trajectory, turn), []).append(index)
    return roles


def calls_of(trajectory: Trajectory, main: str) -> dict[str, list[list[int]]]:
    """Return the calls of each speaker but `main`: unbroken runs of its turns, by index, in order.

    A call within a call, by the same role, is part of it.
    """
    calls: dict[str, list[list[int]]] = {}
    speakers = [speaker(trajectory, turn) for turn in trajectory.turns]
    for name, run in groupby(range(len(speakers)), key=speakers.__getitem__):
        if name != main:
            calls.setdefault(name, []).append([*run])
    return calls


def take_turns(trajectory: Trajectory, indices: Sequence[int], agent: str) -> Trajectory:
    """Return the turns of `indices`, ascending and at least one, as a trajectory of `agent`.

    A turn's reward is what the episode pays from it until the next of these turns, or until the end; what it has paid
    before the first one is no part of the return. `step` is the place in the episode. Success and stop are the
    episode's.
    """
    is_own = {*indices}
    turns: list[Turn] = []
    history: list[int] = []  # the tokens before a reply
    num_known = 0  # tokens of the history that the new trajectory holds already
    is_replaced = False  # whether a new history has begun since its last turn
    messages: list[Message] = []  # since its last turn
    for index, turn in enumerate(trajectory.turns):
        if turn.fresh:
            history, num_known, is_replaced, messages = [], 0, True, []
        history += turn.context
        messages += turn.observation
        if index in is_own:
            step = index if turn.step is None else turn.step
            own = replace(turn, context=tuple(history[num_known:]), observation=tuple(messages), step=step, streams={})
            own.rewards, own.fresh = dict(turn.rewards), is_replaced and bool(turns)
            turns.append(own)
            is_replaced, messages = False, []
        elif turns:
            last = turns[-1]
            last.reward += turn.reward
            names = {**last.rewards, **turn.rewards}
            last.rewards = {name: last.rewards.get(name, 0.0) + turn.rewards.get(name, 0.0) for name in names}
        history += turn.completion.ids
        if index in is_own:
            num_known = len(history)
        elif turn.reply is not None:
            messages.append(turn.reply)
    is_last = indices[-1] == len(trajectory.turns) - 1
    return replace(trajectory, turns=turns, agent=agent, final=trajectory.final if is_last else ())


def copy_of(trajectory: Trajectory) -> Trajectory:
    """Return a copy that counts as replayed: nothing was sampled for it."""
    return replace(trajectory, turns=[replace(turn, streams={}) for turn in trajectory.turns], replayed=True)
