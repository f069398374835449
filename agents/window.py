"""An agent with a sliding window: the context holds the opening and the latest turns, however long the episode is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from agents.agent import Context
from agents.chat import ChatAgent, Option
from agents.render import Renderer
from envs.types import Message


class WindowAgent(ChatAgent):
    """A `ChatAgent` whose prompts hold the opening messages and at most the last `turns` turns.

    A turn is a reply with the messages that answer it. Where an older one has to go, the context is written anew from
    the messages that remain and is `fresh`: its tokens are what the policy reads and is trained on.

    Args:
        renderer: Writes and reads tokens.
        system: Text for the system message, see `agents.chat.with_system`.
        turns: Turns that stay in the context, at least 1.

    Raises:
        ValueError: `turns` is below 1.

    """

    options: ClassVar[Mapping[str, Option]] = {
        "turns": Option("the latest turns, which stay in the context", is_required=True)
    }

    def __init__(self, renderer: Renderer, system: str = "", *, turns: int) -> None:
        super().__init__(renderer, system)
        if turns < 1:
            raise ValueError(f"turns must be at least 1, not {turns}")
        self.turns = turns
        self._opening_length = 0  # messages before the first reply

    def open(self, messages: Sequence[Message], tools: Sequence[dict] = ()) -> Context:
        """Start an episode; return the first prompt, as `ChatAgent.open` does."""
        context = super().open(messages, tools)
        self._opening_length = len(self.messages)
        return context

    def observe(self, messages: Sequence[Message]) -> Context:
        """Add `messages`; return their tokens, or a `fresh` context without the turns that left the window."""
        starts = [
            place
            for place in range(self._opening_length, len(self.messages))
            if self.messages[place]["role"] == "assistant"
        ]
        if len(starts) <= self.turns:
            return super().observe(messages)
        del self.messages[self._opening_length : starts[-self.turns]]
        self.messages.extend(messages)
        return self._fresh_context()
