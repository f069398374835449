"""The default agent: keeps every message in the context, and starts a fresh one only where the template requires it."""

from __future__ import annotations

from collections.abc import Sequence

from agents.agent import Context
from agents.render import Renderer
from agents.reply import has_thinking
from envs.types import Message


class ChatAgent:
    """An `Agent` over a chat template. `messages` is the dialogue so far, used where the template rewrites history."""

    def __init__(self, renderer: Renderer) -> None:
        self.renderer = renderer
        self.messages: list[Message] = []
        self._tools: Sequence[dict] = ()
        self._last_token: tuple[int, ...] = ()  # of the last reply; empty if that is
        self._thinking: set[bool] = set()  # whether replies hold thinking: both values once there are both kinds
        self._num_calls = 0

    @property
    def stop(self) -> tuple[int, ...]:
        """Token ids that end a reply and belong to it."""
        return self.renderer.stop

    def open(self, messages: Sequence[Message], tools: Sequence[dict] = ()) -> Context:
        """Start an episode, forgetting an earlier one; return the first prompt: tools, messages, header of the reply.

        `tools` are OpenAI function schemas. Raises `ValueError` if the chat template refuses the messages.
        """
        self.messages, self._tools = list(messages), tuple(tools)
        self._last_token, self._thinking, self._num_calls = (), set(), 0
        return Context(self.renderer.open(self.messages, self._tools))

    def act(self, ids: Sequence[int]) -> Message:
        """Parse the token ids of a sampled reply into an assistant message, and add it to the dialogue.

        Ids of tool calls are unique within the dialogue.
        """
        message = self.renderer.parse(ids, calls_before=self._num_calls)
        self.messages.append(message)
        self._last_token = tuple(ids[-1:])
        self._thinking.add(has_thinking(message))
        self._num_calls += len(message.get("tool_calls") or ())
        return message

    def amend(self, message: Message) -> tuple[int, ...]:
        """Replace the last reply by `message`; return the tokens that stand for it in later prompts."""
        self.messages[-1] = message
        replies = [message for message in self.messages if message["role"] == "assistant"]
        self._thinking = {has_thinking(reply) for reply in replies}
        self._num_calls = sum(len(reply.get("tool_calls") or ()) for reply in replies)
        ids = self.renderer.write(message)
        self._last_token = ids[-1:]
        return ids

    def observe(self, messages: Sequence[Message]) -> Context:
        """Add `messages` to the dialogue; return their tokens, up to where the next reply begins.

        If the template rewrites the history, returns the tokens of the whole dialogue instead, as a `fresh` context.
        """
        self.messages.extend(messages)
        extension = self._extension(messages)
        if extension is None:
            return Context(self.renderer.render(self.messages, self._tools, generation=True), fresh=True)
        return Context(extension)

    def _extension(self, messages: Sequence[Message]) -> tuple[int, ...] | None:
        closed = self._last_token == (self.renderer.terminator,)
        if not closed and self._last_token and self._last_token[0] in self.stop:
            return None  # ended by a token that the template would not have written there
        extensions = {
            self.renderer.extend(messages, closed=closed, thinking=thinking, tools=self._tools)
            for thinking in self._thinking
        }
        return extensions.pop() if len(extensions) == 1 else None
