"""An agent that tells the policy how many turns remain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from agents.agent import Context
from agents.chat import ChatAgent, Option
from agents.render import Renderer
from agents.requests import add_text
from envs.types import Message

REMINDER = {"full": "[{} turns remain, this one included.]", "short": "{} left"}
LAST = {"full": "[This is the last turn: give your final answer.]", "short": "last"}


class ReminderAgent(ChatAgent):
    """A `ChatAgent` that ends each of the environment's answers with the number of turns that remain.

    A turn is a reply with the messages that answer it. The words stand at the end of the last message, also of a tool's
    result, and stay in the history; they are never trained. After `turns` turns nothing more is said.

    Args:
        renderer: Writes and reads tokens.
        system: Text for the system message, see `agents.chat.with_system`.
        turns: Turns of an episode: the limit of the environment, or a lower number to hurry the policy.
        last: Reminds only while at most this many turns remain; None for always.

    Raises:
        ValueError: An argument is below 1.

    """

    options: ClassVar[Mapping[str, Option]] = {
        "turns": Option("turns of an episode", is_required=True),
        "last": Option("reminds only while at most so many remain (default: always)"),
    }

    def __init__(self, renderer: Renderer, system: str = "", *, turns: int, last: int | None = None) -> None:
        super().__init__(renderer, system)
        self.turns, self.last = turns, turns if last is None else last
        if min(self.turns, self.last) < 1:
            raise ValueError(f"turns and last must be at least 1, not {self.turns} and {self.last}")
        self._num_replies = 0

    def open(self, messages: Sequence[Message], tools: Sequence[dict] = ()) -> Context:
        """Start an episode; return the first prompt with its reminder."""
        self._num_replies = 0
        return super().open(self._with_reminder(messages), tools)

    def observe(self, messages: Sequence[Message]) -> Context:
        """Add `messages` with a reminder at their end; return their tokens, as `ChatAgent.observe` does."""
        self._num_replies += 1
        return super().observe(self._with_reminder(messages))

    def _with_reminder(self, messages: Sequence[Message]) -> list[Message]:
        remaining = self.turns - self._num_replies
        if not 1 <= remaining <= self.last:
            return [*messages]
        reminder = LAST[self.style] if remaining == 1 else REMINDER[self.style].format(remaining)
        return add_text(messages, reminder, ("user", "tool"))
