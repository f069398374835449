"""Gymnasium wrappers of environments whose observations are messages."""

from __future__ import annotations

from typing import Any

import gymnasium
from gymnasium.utils import RecordConstructorArgs

from envs.spaces import TextSpace
from envs.types import Messages, text


class TextIO(gymnasium.Wrapper, RecordConstructorArgs):
    """Plain text instead of messages: an observation is the texts of the new messages, joined by newlines.

    Roles, images and tool calls are dropped.
    """

    def __init__(self, env: gymnasium.Env) -> None:
        RecordConstructorArgs.__init__(self)
        gymnasium.Wrapper.__init__(self, env)
        self.observation_space = TextSpace()
        self.action_space = TextSpace()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Start an episode; arguments and info are those of the environment."""
        messages, info = self.env.reset(seed=seed, options=options)
        return _join_texts(messages), info

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Play one turn with a text. Raises TypeError for an action that is not a str."""
        if not isinstance(action, str):
            raise TypeError(f"an action of TextIO is a str, not {type(action).__name__}")
        messages, reward, terminated, truncated, info = self.env.step(action)
        return _join_texts(messages), float(reward), terminated, truncated, info


def _join_texts(messages: Messages) -> str:
    return "\n".join(text(message) for message in messages)
