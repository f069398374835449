"""Tool calls whose arguments are all texts: their schemas, reading one, writing one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from envs.suggestions import unknown
from envs.types import Message, ToolError


class Call(NamedTuple):
    """A tool's name and what it is given."""

    name: str
    given: Mapping[str, str]


def schema(name: str, what: str, needs: Mapping[str, str], may: Mapping[str, str] | None = None) -> dict[str, Any]:
    """An OpenAI function schema; `needs` and `may` hold the meaning of each argument, needed and optional."""
    meanings = {**needs, **(may or {})}
    properties = {key: {"type": "string", "description": meaning} for key, meaning in meanings.items()}
    parameters = {"type": "object", "properties": properties, "required": list(needs)}
    return {"type": "function", "function": {"name": name, "description": what, "parameters": parameters}}


def called(message: Message, tools: Sequence[Mapping[str, Any]]) -> Call:
    """The first call of a message that has one. Raises ToolError where it does not fit the schemas."""
    function = message["tool_calls"][0]["function"]
    known = {tool["function"]["name"]: tool["function"]["parameters"] for tool in tools}
    name = function["name"]
    if name not in known:
        raise ToolError(unknown("tool", name, known))
    try:
        given = json.loads(function["arguments"] or "{}")
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict):
        raise ToolError(f"the arguments of {name} are no JSON object")
    for key in known[name]["required"]:
        if not isinstance(given.get(key), str):
            raise ToolError(f"{name} needs {key!r}, a text")
    for key, value in given.items():
        if key not in known[name]["properties"]:
            raise ToolError(unknown("argument", key, known[name]["properties"], of=name))
        if not isinstance(value, str):
            raise ToolError(f"{key!r} of {name} must be a text")
    return Call(name, given)


def calling(call: Call, number: int) -> Message:
    """The message that makes a call, the `number`-th of its dialogue."""
    function: Any = {"name": call.name, "arguments": json.dumps(dict(call.given))}
    return {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": f"call{number:05d}", "type": "function", "function": function}],
    }
