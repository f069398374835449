"""Types at the boundary of an environment: messages, tasks, outcomes, stop reasons. Imports nothing else of `envs`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, NotRequired, TypedDict

Role = Literal["system", "user", "assistant", "tool"]


class Function(TypedDict):
    """Name and arguments of a `ToolCall`. `arguments` is JSON text, as in OpenAI's API."""

    name: str
    arguments: str


class ToolCall(TypedDict):
    """A tool call of an assistant message. The result is a `tool` message whose `tool_call_id` is this `id`.

    A call that could not be read has an `error`, with which an environment answers it
    (`envs.tools.tool_calls.check_readable`).
    """

    id: str
    type: Literal["function"]
    function: Function
    error: NotRequired[str]


class NextTask(TypedDict):
    """What a message that begins another task of a chain (`envs.episodes.chain`) says besides its text.

    `place` is the number of the task in the chain, from 0; `solved` says whether the task before it was solved.
    """

    place: int
    solved: bool


class Message(TypedDict):
    """A chat message in OpenAI's format. `content` is a str, or a list of content blocks (text, images).

    Two keys are our own and are no part of what a model reads: `next_task`, of an environment's message, and `skill`,
    the name of the skill that an agent has stored or carried out (`agents.chains.skills`).
    """

    role: Role
    content: Any
    tool_calls: NotRequired[list[ToolCall]]
    tool_call_id: NotRequired[str]
    name: NotRequired[str]
    next_task: NotRequired[NextTask]
    skill: NotRequired[str]


Messages = tuple[Message, ...]


def system(content: str) -> Message:
    """Make a system message."""
    return {"role": "system", "content": content}


def user(content: str) -> Message:
    """Make a user message: the usual message of an environment."""
    return {"role": "user", "content": content}


def assistant(
    content: str = "",
    *,
    tool_calls: Sequence[ToolCall | tuple[str, Mapping[str, Any] | str]] = (),
    first_id: int = 0,
) -> Message:
    """Make an assistant message: a reply of the policy.

        assistant(tool_calls=[("search", {"query": "old cook"})])

    Args:
        content: The text.
        tool_calls: Calls, each as a pair of the tool's name and its arguments (a mapping, or JSON text) or as a whole
            `ToolCall`.
        first_id: Number of the first call: pairs get the ids `call_id(first_id)`, `call_id(first_id + 1)`, ... by their
            place. Ids should be unique in a dialogue.

    Raises:
        TypeError: A call is neither, or its arguments are no JSON-able mapping and no text.
    """
    message: Message = {"role": "assistant", "content": content}
    if tool_calls:
        message["tool_calls"] = [_tool_call(call, first_id + place) for place, call in enumerate(tool_calls)]
    return message


def call_id(number: int) -> str:
    """Return the id of a dialogue's call: nine letters and digits, the only form that Mistral's templates accept."""
    return f"call{number:05d}"


def _tool_call(call: Any, number: int) -> ToolCall:
    if isinstance(call, Mapping):
        function = call.get("function")
        if not isinstance(function, Mapping) or not {"name", "arguments"} <= function.keys():
            raise TypeError(f"a tool call is {{'id', 'type', 'function': {{'name', 'arguments'}}}}, not {call!r}")
        name, arguments, id = function["name"], function["arguments"], call.get("id", call_id(number))
    elif isinstance(call, tuple | list) and len(call) == 2:
        (name, arguments), id = call, call_id(number)
    else:
        raise TypeError(f"a tool call is a pair (name, arguments) or a ToolCall, not {call!r}")
    if not isinstance(arguments, str):
        if not isinstance(arguments, Mapping):
            raise TypeError(f"arguments of {name!r} are a mapping or JSON text, not {type(arguments).__name__}")
        arguments = json.dumps(dict(arguments))
    if not isinstance(name, str) or not isinstance(id, str):
        raise TypeError(f"name and id of a tool call are texts, not {name!r} and {id!r}")
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


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


def final_line(message: Message) -> str:
    """Return the last line of a reply that is not blank, stripped, without the reasoning of `final_text`; "" for none.

    Most environments read this line only, so that a reply may think first.
    """
    return final_text(message).rstrip().rpartition("\n")[2].strip()


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
    POLICY_FAULT = "policy_fault"  # the same replies made the environment fail twice: scored as a failure
    ERROR = "error"  # infrastructure fault (environment bug, timeout, sandbox failure): retried, never scored


class ToolError(Exception):
    """A mistake of the model in a tool call, shown to the model. Other exceptions are infrastructure faults."""


class NegativeResult(ToolError):
    """The answer "no" to a question that a call asks rightly: shown like an error, but the call is no mistake."""
