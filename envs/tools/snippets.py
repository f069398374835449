"""What a reply asks of a Python interpreter: a snippet to run, or nothing, because it is an answer."""

from __future__ import annotations

import json
import re
from textwrap import dedent
from typing import Any

from envs.suggestions import unknown
from envs.types import Function, Message, Messages, ToolError, assistant, spoken, user

NAME, KEY = "python", "code"
TOOLS: tuple[dict[str, Any], ...] = (
    {
        "type": "function",
        "function": {
            "name": NAME,
            "description": "Run Python. Names last to the next call. A last expression is printed.",
            "parameters": {
                "type": "object",
                "properties": {KEY: {"type": "string", "description": "The code."}},
                "required": [KEY],
            },
        },
    },
)
_FENCE = re.compile(
    r"^[ \t]*```(?:python3?|py)[ \t]*\n(.*?)(?:^[ \t]*```|\Z)", re.MULTILINE | re.DOTALL | re.IGNORECASE
)
_LINE = re.compile(r"^>(.*)$", re.MULTILINE)


def asked(message: Message) -> str | None:
    """The code that a reply wants to be run; None where it is an answer.

    It is that of the first tool call or, without a call, of all fenced blocks marked as Python or, without a block, of
    all lines that begin with `>`. A block that is not closed reaches to the end. Raises ToolError where there is a
    call, a block or such a line, and no code in it.
    """
    calls = message.get("tool_calls")
    if calls:
        return _argument(calls[0]["function"])
    said = after_thought(message)
    blocks = _FENCE.findall(said)
    if not blocks and (lines := _LINE.findall(said)):
        blocks = ["\n".join(lines)]
    if not blocks:
        return None
    code = "\n".join(dedent(block).rstrip() for block in blocks)
    if not code.strip():
        raise ToolError("there is no code")
    return code


def after_thought(message: Message) -> str:
    """The text of a reply after its thinking."""
    return spoken(message).strip()


def saying(code: str) -> Message:
    """The message that has code run, in as few bytes as can be."""
    return assistant("\n".join(f">{line}" for line in code.splitlines()))


def calling(code: str, number: int) -> Message:
    """The message that has code run by a tool call, the `number`-th of its dialogue."""
    function: Function = {"name": NAME, "arguments": json.dumps({KEY: code})}
    return {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": f"call{number:05d}", "type": "function", "function": function}],
    }


def answered(action: Message, said: str) -> Messages:
    """What was `said`, as a user message or as tool messages: one for each call of the reply, as APIs demand."""
    ids = [call["id"] for call in action.get("tool_calls") or ()]
    if not ids:
        return (user(said),)
    told = [said] + ["error: one call a turn"] * (len(ids) - 1)
    return tuple({"role": "tool", "tool_call_id": id, "content": one} for id, one in zip(ids, told, strict=True))


def _argument(function: Function) -> str:
    if function["name"] != NAME:
        raise ToolError(unknown("tool", function["name"], [NAME]))
    try:
        code = json.loads(function["arguments"])[KEY]
    except (ValueError, RecursionError, TypeError, LookupError):
        raise ToolError(f"python needs {KEY!r} as a JSON object") from None
    if not isinstance(code, str) or not code.strip():
        raise ToolError("there is no code")
    return code
