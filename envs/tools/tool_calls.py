"""Tool calls in chat messages: function schemas with text arguments, parsing a call, writing one, answering calls."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from envs.suggestions import unknown_message
from envs.types import Message, Messages, ToolCall, ToolError, assistant, final_text, user


class Command(NamedTuple):
    """A tool's name and its arguments, which are all texts. It may come from a tool call or from plain text."""

    name: str
    arguments: Mapping[str, str]


def function_schema(
    name: str, description: str, required: Mapping[str, str], optional: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Build an OpenAI function schema, an entry of a request's `tools`, whose arguments are all strings.

    `required` and `optional` map the name of each argument to its description.
    """
    descriptions = {**required, **(optional or {})}
    properties = {key: {"type": "string", "description": meaning} for key, meaning in descriptions.items()}
    parameters = {"type": "object", "properties": properties, "required": list(required)}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


def parse_tool_call(message: Message, tools: Sequence[Mapping[str, Any]]) -> Command:
    """Parse the first tool call of a message that has at least one.

    Raises ToolError for a call that could not be read, and as `parse_function` does.
    """
    check_readable(message["tool_calls"][0])
    return parse_function(**message["tool_calls"][0]["function"], tools=tools)


def parse_function(name: str, arguments: str, tools: Sequence[Mapping[str, Any]]) -> Command:
    """Check a call of one of `tools`, whose arguments are JSON text.

    Raises ToolError for a tool or an argument that the schemas `tools` do not have, a required argument that is
    missing, and arguments that are no JSON object of texts.
    """
    schemas = {tool["function"]["name"]: tool["function"]["parameters"] for tool in tools}
    if name not in schemas:
        raise ToolError(unknown_message("tool", name, schemas))
    try:
        values = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict):
        raise ToolError(f"the arguments of {name} are no JSON object")
    for key in schemas[name]["required"]:
        if not isinstance(values.get(key), str):
            raise ToolError(f"{name} needs {key!r}, a text")
    for key, value in values.items():
        if key not in schemas[name]["properties"]:
            raise ToolError(unknown_message("argument", key, schemas[name]["properties"], of=name))
        if not isinstance(value, str):
            raise ToolError(f"{key!r} of {name} must be a text")
    return Command(name, values)


def check_readable(call: ToolCall) -> None:
    """Raise ToolError, with what is wrong and the form expected, for a tool call that the policy wrote malformed."""
    if call.get("error"):
        raise ToolError(call["error"])


def command_as_call(command: Command, number: int) -> Message:
    """Write the assistant message that makes `command` as a tool call.

    `number`, such as the turn's, tells the call's id (`call00007`) from others of the episode.
    """
    return assistant(tool_calls=[(command.name, command.arguments)], first_id=number)


def result_messages(action: Message, result: str) -> Messages:
    """Return the observation `result` as a user message or, where `action` has tool calls, one tool message per call.

    Only the first call is carried out; chat APIs demand an answer to the others too, and these get an error.
    """
    ids = [call["id"] for call in action.get("tool_calls") or ()]
    if not ids:
        return (user(result),)
    contents = [result] + ["error: one call a turn"] * (len(ids) - 1)
    return tuple(
        {"role": "tool", "tool_call_id": id, "content": content} for id, content in zip(ids, contents, strict=True)
    )


def reply_text(message: Message) -> str:
    """Return the text of a reply without its `<think>` block and without white space at its ends."""
    return final_text(message).strip()
