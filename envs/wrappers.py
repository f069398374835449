"""Wrappers around environments of messages."""

from __future__ import annotations

from typing import Any

import gymnasium
from gymnasium.utils import RecordConstructorArgs

from envs.spaces import TextSpace
from envs.types import Messages, text


class TextIO(gymnasium.Wrapper, RecordConstructorArgs):
    """Plain text instead of messages: an observation is one str, the new messages' texts joined by newlines.

    Images and tool calls have no place in it; roles are dropped.
    """

    def __init__(self, env: gymnasium.Env) -> None:
        RecordConstructorArgs.__init__(self)
        gymnasium.Wrapper.__init__(self, env)
        self.observation_space = TextSpace()
        self.action_space = TextSpace()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Start an episode, as the environment does."""
        messages, info = self.env.reset(seed=seed, options=options)
        return _joined(messages), info

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Play one turn. Raises TypeError for an action that is not a str."""
        if not isinstance(action, str):
            raise TypeError(f"an action of TextIO is a str, not {type(action).__name__}")
        messages, reward, terminated, truncated, info = self.env.step(action)
        return _joined(messages), float(reward), terminated, truncated, info


def _joined(messages: Messages) -> str:
    return "\n".join(text(message) for message in messages)
