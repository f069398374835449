"""The plain agent: every message stays in the context, and history is rewritten only where the template does so."""

from __future__ import annotations

from collections.abc import Sequence

from agents.agent import Context
from agents.render import Renderer
from agents.reply import is_thinking
from envs.types import Message


class ChatAgent:
    """A renderer and the dialogue so far, which is needed only where a template rewrites history."""

    def __init__(self, renderer: Renderer) -> None:
        self.renderer = renderer
        self.messages: list[Message] = []
        self._tools: Sequence[dict] = ()
        self._last: tuple[int, ...] = ()
        self._thinking: set[bool] = set()  # kinds of replies given: with a thinking block, without
        self._calls = 0

    @property
    def stop(self) -> tuple[int, ...]:
        """Token ids that end a reply and belong to it."""
        return self.renderer.stop

    def open(self, messages: Sequence[Message], tools: Sequence[dict] = ()) -> Context:
        """The context of the first reply; forgets an earlier dialogue."""
        self.messages, self._tools = list(messages), tuple(tools)
        self._last, self._thinking, self._calls = (), set(), 0
        return Context(self.renderer.open(self.messages, self._tools))

    def act(self, ids: Sequence[int]) -> Message:
        """The message that a sampled reply means."""
        message = self.renderer.parse(ids, calls_before=self._calls)
        self.messages.append(message)
        self._last = tuple(ids[-1:])
        self._thinking.add(is_thinking(message))
        self._calls += len(message.get("tool_calls") or ())
        return message

    def amend(self, message: Message) -> tuple[int, ...]:
        """Put `message` in the place of the last reply; the tokens that stand for it from now on."""
        self.messages[-1] = message
        given = [message for message in self.messages if message["role"] == "assistant"]
        self._thinking = {is_thinking(message) for message in given}
        self._calls = sum(len(message.get("tool_calls") or ()) for message in given)
        ids = self.renderer.write(message)
        self._last = ids[-1:]
        return ids

    def observe(self, messages: Sequence[Message]) -> Context:
        """The new messages after the last reply, or the whole dialogue anew where the template rewrites history."""
        self.messages.extend(messages)
        tail = self._tail(messages)
        if tail is None:
            return Context(self.renderer.render(self.messages, self._tools, generation=True), fresh=True)
        return Context(tail)

    def _tail(self, messages: Sequence[Message]) -> tuple[int, ...] | None:
        closed = self._last == (self.renderer.terminator,)
        if not closed and self._last and self._last[0] in self.stop:
            return None  # ended by a token that the template would not have written there
        tails = {
            self.renderer.extend(messages, closed=closed, thinking=thinking, tools=self._tools)
            for thinking in self._thinking
        }
        return tails.pop() if len(tails) == 1 else None
