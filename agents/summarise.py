"""An agent that has the policy summarise what leaves the context, once the context has more tokens than a budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from agents.agent import Context, Internal
from agents.chat import ChatAgent, Option
from agents.render import Renderer
from agents.requests import add_text, ask
from envs.types import Message, assistant, final_text

ROLE = "summary"
LEAST_LENGTH = 16  # of a summary, in tokens, unless an option says otherwise: less says nothing
REQUEST = {
    "full": "The dialogue grows too long: after your next reply its earlier turns are removed. Write a summary of all "
    "that is needed to go on: what was found out, what was tried and with what result, what is left to do. Write the "
    "summary only; nobody but you will read it, and nothing in it is carried out.",
    "short": "sum up",
}
HEADING = {"full": "Your summary of the turns that were removed:", "short": "so far"}


class SummaryAgent(ChatAgent):
    """A `ChatAgent` that asks the policy for a summary when the context exceeds `tokens` tokens.

    The request follows the environment's new messages. The reply to it is internal and is cut at `length` tokens. Then
    the context is written anew and is `fresh`: the opening with the summary, and the last `turns` turns as they were. A
    turn is a reply with the messages that answer it. There is at most one summary between two replies to the
    environment. Where a summary is empty, reasoning left out, the one before it stays.

    Args:
        renderer: Writes and reads tokens.
        system: Text for the system message, see `agents.chat.with_system`.
        tokens: The budget of a context. The request for a summary exceeds it by the latest turn and its own words.
        turns: Turns that stay as they were.
        length: Most tokens of a summary; None for a quarter of `tokens`, but at least 16.

    Raises:
        ValueError: An argument is too small.

    """

    has_internal_replies = True
    roles = (ROLE,)
    options: ClassVar[Mapping[str, Option]] = {
        "tokens": Option("tokens of a context above which a summary is asked for", is_required=True),
        "turns": Option("the latest turns, which stay as they were (default: 1)", 0),
        "length": Option("most tokens of a summary (default: a quarter of tokens, at least 16)"),
    }

    def __init__(
        self, renderer: Renderer, system: str = "", *, tokens: int, turns: int = 1, length: int | None = None
    ) -> None:
        super().__init__(renderer, system)
        self.tokens, self.turns, self.length = (
            tokens,
            turns,
            max(LEAST_LENGTH, tokens // 4) if length is None else length,
        )
        for name, least in (("tokens", 1), ("turns", 0), ("length", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be at least {least}, not {getattr(self, name)}")
        self._opening: list[Message] = []
        self._old_messages: list[Message] = []  # turns that the next summary is of
        self._latest: list[Message] | None = None  # what stays as it was, while a summary is awaited
        self._summary = ""
        self._num_tokens = 0

    def open(self, messages: Sequence[Message], tools: Sequence[dict] = ()) -> Context:
        """Start an episode; return the first prompt, as `ChatAgent.open` does."""
        context = super().open(messages, tools)
        self._opening, self._latest, self._summary = [*self.messages], None, ""
        self._num_tokens = len(context.ids)
        return context

    def act(self, ids: Sequence[int]) -> Message | Internal:
        """Parse a reply; a summary is internal."""
        self._num_tokens += len(ids)
        message = self._read(ids)
        if self._latest is None:
            return message
        self._summary = final_text(message).strip() or self._summary
        return Internal(message)

    def amend(self, message: Message) -> tuple[int, ...]:
        """Replace the last reply by `message`; return the tokens that stand for it in later prompts."""
        self._num_tokens -= len(self.renderer.write(self.messages[-1]))
        ids = super().amend(message)
        self._num_tokens += len(ids)
        return ids

    def observe(self, messages: Sequence[Message]) -> Context:
        """Add `messages`; return their tokens, with a request for a summary where the context grows too long.

        After a summary, return the `fresh` context that holds it.
        """
        if self._latest is not None:
            self.messages, self._latest = [*self._opening_with_summary(), *self._latest], None
            return self._count(self._fresh_context())
        num_messages, thinking = len(self.messages), set(self._thinking)
        context = super().observe(messages)
        if len(context.ids) + (0 if context.fresh else self._num_tokens) <= self.tokens:
            return self._count(context)
        replies = [
            place
            for place in range(len(self._opening), len(self.messages))
            if self.messages[place]["role"] == "assistant"
        ]
        if len(replies) <= self.turns:  # nothing would leave the context
            return self._count(context)
        start = replies[len(replies) - self.turns] if self.turns else len(self.messages)
        old_messages, latest = self.messages[len(self._opening) : start], self.messages[start:]
        del self.messages[num_messages:]
        self._thinking = thinking
        context = super().observe(ask(messages, REQUEST[self.style], self.renderer))
        self._old_messages, self._latest = old_messages, latest
        return self._count(context)._replace(role=ROLE, max_tokens=self.length)

    def demonstrate(self, reply: Message) -> Message:
        """Return `reply`, or where a summary is asked for the end of what was said, as much as a summary may hold."""
        if self._latest is None:
            return reply
        texts = (self._summary, *map(final_text, self._old_messages))
        lines = [line for text in texts for line in text.splitlines() if line.strip()]
        while lines and len(self.renderer.write(assistant("\n".join(lines)))) > self.length:
            del lines[0]
        return assistant("\n".join(lines))

    def _count(self, context: Context) -> Context:
        self._num_tokens = len(context.ids) + (0 if context.fresh else self._num_tokens)
        return context

    def _opening_with_summary(self) -> list[Message]:
        if not self._summary:
            return [*self._opening]
        return add_text(self._opening, f"{HEADING[self.style]}\n{self._summary}")
