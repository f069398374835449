"""Votes: the answer that an episode gives."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from contextlib import suppress
from typing import Any

import gymnasium

from envs.types import assistant
from envs.watchdog import WATCHDOG
from rl.records import Trajectory

Vote = Callable[[Trajectory], Hashable]  # the answer of an episode; None for no answer


def vote_function(env: gymnasium.Env) -> Vote:
    """Return the function that reads an episode's answer: `env.vote` of the last reply if defined, else `final_reply`.

    An environment's `vote(reply)` maps replies that mean the same to the same value. Raises ValueError if that value
    cannot be counted, as far as a first reply shows.
    """
    env_vote = getattr(env.unwrapped, "vote", None)
    if env_vote is None:
        return final_reply
    name, answer = type(env.unwrapped).__name__, None
    with suppress(Exception):  # of a vote that fails, which an episode or the doctor will meet again
        answer = WATCHDOG.step_call(f"{name}: vote", env_vote, assistant("1"))
    try:
        hash(answer)
    except TypeError as error:
        reason = f"vote() returns a {type(answer).__name__}, which cannot be counted ({error})"
        raise ValueError(f"{name}: {reason}; return a text, a number or a tuple of these") from None
    return lambda trajectory: env_vote(trajectory.replies[-1].reply) if trajectory.replies else None


def final_reply(trajectory: Trajectory) -> str | None:
    """Return the text and tool calls of an episode's last reply as `reply_text` does; None if it has none."""
    return reply_text(trajectory.replies[-1].reply) if trajectory.replies else None


def reply_text(reply: Mapping[str, Any] | None) -> str | None:
    """Return the text and tool calls of a reply as one line; None if they are empty.

    Each run of white space becomes one space. A tool call is its name and its JSON arguments: `read {"path": "a.py"}`.
    """
    reply = reply or {}
    content = reply.get("content") or ""
    if not isinstance(content, str):
        content = " ".join(block.get("text", "") for block in content)
    calls = [f"{call['function']['name']} {call['function']['arguments']}" for call in reply.get("tool_calls") or ()]
    return " ".join(" ".join((content, *calls)).split()) or None
