"""The nouns that cross the environment boundary: messages, tasks, outcomes, reasons to stop. Imports none of ours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, NotRequired, TypedDict

Role = Literal["system", "user", "assistant", "tool"]


class Function(TypedDict):
    """The call inside a `ToolCall`. `arguments` is a JSON text, as OpenAI's API has it."""

    name: str
    arguments: str


class ToolCall(TypedDict):
    """One call an assistant message makes; the answer is a `tool` message with this `id`."""

    id: str
    type: Literal["function"]
    function: Function


class Message(TypedDict):
    """An OpenAI-style chat message. `content` is text, or a list of content blocks where images are involved."""

    role: Role
    content: Any
    tool_calls: NotRequired[list[ToolCall]]
    tool_call_id: NotRequired[str]
    name: NotRequired[str]


Messages = tuple[Message, ...]


def system(content: str) -> Message:
    """A system message."""
    return {"role": "system", "content": content}


def user(content: str) -> Message:
    """A user message: what an environment says by default."""
    return {"role": "user", "content": content}


def assistant(content: str) -> Message:
    """An assistant message: what a policy says."""
    return {"role": "assistant", "content": content}


def text(message: Message) -> str:
    """The text of a message: its content, or its text blocks joined by newlines."""
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "\n".join(block["text"] for block in content if block["type"] == "text")


def spoken(message: Message) -> str:
    """What a reply says: its text after the last `</think>`, all of it without one, nothing if it never stops thinking.

    Environments judge this, because reasoning models try out answers in the block before.
    """
    whole = text(message)
    _, mark, rest = whole.rpartition("</think>")
    if mark:
        return rest.lstrip("\n")
    return "" if whole.lstrip().startswith("<think>") else whole


@dataclass(frozen=True, slots=True)
class Task:
    """One problem. JSON-able data only; behaviour lives in the `Env`.

    `answer` is the ground truth that graders and answer-scoring methods read; it never enters an observation.
    `id` is unique inside the environment and names its split: `"test/17"`.
    """

    id: str
    prompt: Messages = ()
    answer: Any = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)  # frozen, it would cost more than many a turn
class Outcome:
    """What an environment answers to one reply.

    `reward` is this turn's reward; `rewards` its named parts, for multi-reward methods (empty: only one part).
    `terminated` ends the episode by the task's own rules; limits are the framework's and truncate instead.
    `success` must be given when `terminated`. `valid` is False for a reply the environment could not act on.
    `metrics` are numbers for humans and logs; a method acts only on those that its user names.
    """

    messages: Messages = ()
    reward: float = 0.0
    terminated: bool = False
    success: bool = False
    valid: bool = True
    rewards: Mapping[str, float] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)


class Stop(StrEnum):
    """Why an episode ended."""

    TERMINATED = "terminated"  # the task's own end, won or lost
    TURN_LIMIT = "turn_limit"  # truncated: no turns left
    TOKEN_LIMIT = "token_limit"  # truncated: no room for another reply
    TIME_LIMIT = "time_limit"  # truncated: the episode's seconds are used up
    ERROR = "error"  # a fault of ours; never scored


class ToolError(Exception):
    """The model's own mistake in a tool call: its text is shown to the model. Anything else is a fault of ours."""
