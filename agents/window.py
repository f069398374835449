"""An agent with a sliding window: the context holds the opening and the latest turns, however long the episode is."""

from __future__ import annotations

from collections.abc import Sequence

from agents.agent import Context
from agents.chat import ChatAgent
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

    def __init__(self, renderer: Renderer, system: str = "", *, turns: int) -> None:
        super().__init__(renderer, system)
        if turns < 1:
            raise ValueError(f"turns must be at least 1, not {turns}")
        self.turns = turns
        self._opening_length = 0  # messages before the first reply
        self._num_dropped_calls = 0

    def open(self, messages: Sequence[Message], tools: Sequence[dict] = ()) -> Context:
        """Start an episode; return the first prompt, as `ChatAgent.open` does."""
        context = super().open(messages, tools)
        self._opening_length, self._num_dropped_calls = len(self.messages), 0
        return context

    def amend(self, message: Message) -> tuple[int, ...]:
        """Replace the last reply; return its tokens. Ids of calls stay unique among those that were dropped."""
        ids = super().amend(message)
        self._num_calls += self._num_dropped_calls
        return ids

    def observe(self, messages: Sequence[Message]) -> Context:
        """Add `messages`; return their tokens, or a `fresh` context without the turns that left the window."""
        starts = [
            place
            for place in range(self._opening_length, len(self.messages))
            if self.messages[place]["role"] == "assistant"
        ]
        if len(starts) <= self.turns:
            return super().observe(messages)
        old = self.messages[self._opening_length : starts[-self.turns]]
        self._num_dropped_calls += sum(len(message.get("tool_calls") or ()) for message in old)
        del self.messages[self._opening_length : starts[-self.turns]]
        self.messages.extend(messages)
        return self._fresh_context()
