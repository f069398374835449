"""Which members of a group solved their task in the same way, by keys that need no judge."""

from __future__ import annotations

import re
from collections.abc import Hashable

from envs.types import text
from rl.records import Trajectory

_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")


def plan_of(trajectory: Trajectory, key: str) -> Hashable:
    """What two trajectories have in common that followed the same plan.

    `"shape"`: the names of the tools that were called, in order, and the text of replies with every number replaced;
    `"reply"`: the whole text; `"state"`: the states in which turns began.
    """
    if key == "state":
        return tuple(turn.state for turn in trajectory.turns)
    replies = [turn.reply for turn in trajectory.replies if turn.reply is not None]
    if not replies:
        return tuple(turn.completion.ids for turn in trajectory.turns)
    if key == "reply":
        return tuple(map(text, replies))
    calls = tuple(call["function"]["name"] for reply in replies for call in reply.get("tool_calls") or ())
    return calls, tuple(" ".join(_NUMBER.sub("#", text(reply)).split()) for reply in replies)
