"""The default agent: keeps every message in the context, and starts a fresh one only where the template requires it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, NamedTuple

from agents.agent import Context, Internal
from agents.images import images_of, place
from agents.render import Renderer
from agents.reply import has_thinking, split_thinking
from envs.types import Message, system


class Option(NamedTuple):
    """A whole number that an agent's constructor takes by name: its meaning, the least one, whether it is required."""

    meaning: str
    least: int = 1
    is_required: bool = False


class ChatAgent:
    """An `Agent` over a chat template. `messages` is the dialogue so far, used where the template rewrites history.

    `system` is a text for the system message, see `with_system`. Agents that say something themselves say it in a few
    letters, which a model without pre-training can learn, where `style` is "short".
    """

    options: ClassVar[Mapping[str, Option]] = {}  # what may follow the agent's name in `--agent`
    has_internal_replies: ClassVar[bool] = False  # whether it asks for replies that the environment never sees

    def __init__(self, renderer: Renderer, system: str = "") -> None:
        self.renderer, self.system = renderer, system
        self.style: Literal["full", "short"] = "full"
        self.messages: list[Message] = []
        self._tools: Sequence[dict] = ()
        self._last_token: tuple[int, ...] = ()  # of the last reply; empty if that is
        self._thinking: set[bool] = set()  # whether replies hold thinking: both values once there are both kinds
        self._num_calls = 0
        self._prompt_end: tuple[int, ...] = ()

    @property
    def stop(self) -> tuple[int, ...]:
        """Token ids that end a reply and belong to it."""
        return self.renderer.stop

    def open(self, messages: Sequence[Message], tools: Sequence[dict] = ()) -> Context:
        """Start an episode, forgetting an earlier one; return the first prompt: tools, messages, header of the reply.

        `tools` are OpenAI function schemas. Raises `ValueError` if the chat template refuses the messages.
        """
        self.messages, self._tools = with_system(messages, self.system), tuple(tools)
        self._last_token, self._thinking, self._num_calls = (), set(), 0
        return self._context(self.renderer.open(self.messages, self._tools), self.messages)

    def act(self, ids: Sequence[int]) -> Message | Internal:
        """Parse the token ids of a sampled reply into an assistant message, and add it to the dialogue.

        Ids of tool calls are unique within the dialogue.
        """
        return self._read(ids)

    def _read(self, ids: Sequence[int]) -> Message:
        message = self.renderer.parse(ids, calls_before=self._num_calls, tools=self._tools, prompt=self._prompt_end)
        self.messages.append(message)
        self._last_token = tuple(ids[-1:])
        self._thinking.add(has_thinking(message))
        self._num_calls += _num_calls(message)
        return message

    def amend(self, message: Message) -> tuple[int, ...]:
        """Replace the last reply by `message`; return the tokens that stand for it in later prompts."""
        self._num_calls += _num_calls(message) - _num_calls(self.messages[-1])
        self.messages[-1] = message
        self._thinking = {has_thinking(reply) for reply in self.messages if reply["role"] == "assistant"}
        ids = self.renderer.write(message)
        self._last_token = ids[-1:]
        return ids

    def observe(self, messages: Sequence[Message]) -> Context:
        """Add `messages` to the dialogue; return their tokens, up to where the next reply begins.

        If the template drops reasoning from the history or moves parts of it, returns the tokens of the whole dialogue
        instead, as a `fresh` context.
        """
        self.messages.extend(messages)
        extension = self._extension(messages)
        if extension is not None:
            return self._context(extension, messages)
        return self._fresh_context()

    def demonstrate(self, reply: Message) -> Message:
        """Return what a demonstration writes next so that the environment is told `reply`: that, without roles."""
        return reply

    def _fresh_context(self) -> Context:
        """Write the whole dialogue anew."""
        ids = self.renderer.render(self.messages, self._tools, generation=True)
        self._forget_dropped_thinking(ids)
        return self._context(ids, self.messages, fresh=True)

    def _context(self, ids: tuple[int, ...], messages: Sequence[Message], *, fresh: bool = False) -> Context:
        self._prompt_end = ids
        return Context(ids, fresh, images=place(ids, images_of(messages), self.renderer.images))

    def _extension(self, messages: Sequence[Message]) -> tuple[int, ...] | None:
        closed = bool(self._last_token) and self._last_token[0] in self.stop
        reply = next(message for message in reversed(self.messages) if message["role"] == "assistant")
        calls = [(call["id"], call["function"]["name"]) for call in reply.get("tool_calls") or ()]
        end = self._last_token[0] if closed else None
        has_system = any(message["role"] == "system" for message in self.messages)
        extensions = {
            self.renderer.extend(
                messages,
                closed=closed,
                thinking=thinking,
                tools=self._tools,
                calls=calls,
                end=end,
                has_system=has_system,
            )
            for thinking in self._thinking
        }
        return extensions.pop() if len(extensions) == 1 else None

    def _forget_dropped_thinking(self, ids: tuple[int, ...]) -> None:
        """Keep account of reasoning only if a prompt that was rendered anew still shows some of it."""
        replies = [message["content"] for message in self.messages if message["role"] == "assistant"]
        thoughts = [thought for content in replies if (thought := split_thinking(content)[0])]
        text = str(self.renderer.tokenizer.decode(list(ids)))
        self._thinking = {True} if any(thought in text for thought in thoughts) else set()


def _num_calls(message: Message) -> int:
    return len(message.get("tool_calls") or ())


def with_system(messages: Sequence[Message], text: str) -> list[Message]:
    """Return the messages with `text` first in their system message, or in a new one; an empty text adds none."""
    if not text:
        return list(messages)
    if messages and messages[0]["role"] == "system":
        first, *rest = messages
        content: Any = first["content"]
        is_text = isinstance(content, str)
        return [
            {**first, "content": f"{text}\n\n{content}" if is_text else [{"type": "text", "text": text}, *content]},
            *rest,
        ]
    return [system(text), *messages]
