"""Types at the boundary of an environment: messages, tasks, outcomes, stop reasons. Imports nothing else of `envs`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, NotRequired, TypedDict

Role = Literal["system", "user", "assistant", "tool"]


class Function(TypedDict):
    """Name and arguments of a `ToolCall`. `arguments` is JSON text, as in OpenAI's API."""

    name: str
    arguments: str


class ToolCall(TypedDict):
    """A tool call of an assistant message. The result is a `tool` message whose `tool_call_id` is this `id`."""

    id: str
    type: Literal["function"]
    function: Function


class Message(TypedDict):
    """A chat message in OpenAI's format. `content` is a str, or a list of content blocks (text, images)."""

    role: Role
    content: Any
    tool_calls: NotRequired[list[ToolCall]]
    tool_call_id: NotRequired[str]
    name: NotRequired[str]


Messages = tuple[Message, ...]


def system(content: str) -> Message:
    """Make a system message."""
    return {"role": "system", "content": content}


def user(content: str) -> Message:
    """Make a user message: the usual message of an environment."""
    return {"role": "user", "content": content}


def assistant(content: str) -> Message:
    """Make an assistant message: a reply of the policy."""
    return {"role": "assistant", "content": content}


def text(message: Message) -> str:
    """Return the text of a message: its content, or its text blocks joined by newlines; "" if it has none."""
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "\n".join(block["text"] for block in content if block["type"] == "text")


def final_text(message: Message) -> str:
    """Return the text of a reply without its reasoning: what follows the last `</think>`, or all of it without one.

    Empty if the reply opens with `<think>` and never closes it. Environments judge this text, because reasoning models
    try out answers inside the block.
    """
    content = text(message)
    _, tag, rest = content.rpartition("</think>")
    if tag:
        return rest.lstrip("\n")
    return "" if content.lstrip().startswith("<think>") else content


spoken = final_text  # former name


@dataclass(frozen=True, slots=True)
class Task:
    """One problem, as JSON-able data; the rules are in the `Env`.

    Attributes:
        id: Unique in the environment; begins with the split: "test/17".
        prompt: Opening messages, unless `Env.start` builds others.
        answer: Ground truth for graders and for methods that score answers. Never part of an observation.
        metadata: Whatever else the environment needs to play the task.
    """

    id: str
    prompt: Messages = ()
    answer: Any = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)  # not frozen: creating a frozen instance takes longer than many a turn
class Outcome:
    """Result of one reply.

    Attributes:
        messages: Messages for the policy; empty at the end of an episode or if there is nothing to say.
        reward: Reward of this turn.
        terminated: Whether the task itself ends the episode. `Env` truncates at limits; environments do not.
        success: Whether the task is solved; must be set when `terminated`.
        valid: False for a reply that the environment could not act on.
        rewards: Named components of `reward`, for multi-reward methods; empty if there is only one.
        metrics: Numbers for logs. A method reads only those that its options name.
    """

    messages: Messages = ()
    reward: float = 0.0
    terminated: bool = False
    success: bool = False
    valid: bool = True
    rewards: Mapping[str, float] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)


class Stop(StrEnum):
    """Reason why an episode ended."""

    TERMINATED = "terminated"  # by the rules of the task, solved or not
    TURN_LIMIT = "turn_limit"  # truncated: `max_turns` replies were given
    TOKEN_LIMIT = "token_limit"  # truncated: the context has no room for another reply
    TIME_LIMIT = "time_limit"  # truncated: the episode took longer than its limit
    ERROR = "error"  # infrastructure fault (environment bug, timeout, sandbox failure): retried, never scored


class ToolError(Exception):
    """A mistake of the model in a tool call, shown to the model. Other exceptions are infrastructure faults."""
