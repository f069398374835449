"""The tool `python`: its schema, the code that a reply asks to run, and the messages that ask for it."""

from __future__ import annotations

import json
import re
from textwrap import dedent
from typing import Any

from envs.grading.lines import MAX_REPLY
from envs.suggestions import unknown_message
from envs.tools.call_forms.native import native_calls
from envs.tools.text_calls import parse_single_call
from envs.tools.tool_calls import Command, check_readable, command_as_call, function_schema, reply_text
from envs.types import Message, ToolError, assistant

NAME, KEY = "python", "code"
TOOLS: tuple[dict[str, Any], ...] = (
    function_schema(NAME, "Run Python. Names last to the next call. A last expression is printed.", {KEY: "The code."}),
)
_FENCE = re.compile(
    r"^[ \t]*```(?:python3?|py)[ \t]*\n(.*?)(?:^[ \t]*```|\Z)", re.MULTILINE | re.DOTALL | re.IGNORECASE
)
_INLINE = re.compile(r"^[ \t]*```(?:python3?|py)[ \t]+([^\n`]+)```[ \t]*$", re.MULTILINE | re.IGNORECASE)
_LINE = re.compile(r"^>(.*)$", re.MULTILINE)


def parse_code(message: Message) -> str | None:
    """Return the code that a reply asks to run; None for a reply without code, which is an answer.

    The code is that of the first tool call or, without a call, of the last fenced block marked as Python, perhaps on
    one line, or, without a block, of all lines that begin with `>`, or, without these, of the call in JSON that the
    reply ends with (`envs.tools.text_calls`). A block that is not closed reaches to the end of
    the reply. A text of more than `envs.grading.lines.MAX_REPLY` characters has no code. Raises ToolError for a call, a
    block or such a line that holds no code, and for a call of another tool.
    """
    calls = message.get("tool_calls")
    if calls:
        check_readable(calls[0])
        return _code_argument(**calls[0]["function"])
    reply = reply_text(message)
    if len(reply) > MAX_REPLY:
        return None
    if text_calls := native_calls(reply):
        if len(text_calls) > 1:
            raise ToolError("one call a turn; no call was made")
        return _code_argument(*text_calls[0])
    blocks = (_FENCE.findall(reply) or _INLINE.findall(reply))[-1:]
    if not blocks and (lines := _LINE.findall(reply)):
        blocks = ["\n".join(lines)]
    if not blocks:
        call = parse_single_call(reply)
        return _code_argument(*call) if call else None
    code = "\n".join(dedent(block).rstrip() for block in blocks)
    if not code.strip():
        raise ToolError("there is no code")
    return code


def code_as_text(code: str) -> Message:
    """Write the shortest assistant message that asks to run `code`: its lines, each after a `>`."""
    return assistant("\n".join(f">{line}" for line in code.splitlines()))


def code_as_call(code: str, number: int) -> Message:
    """Write the assistant message that asks to run `code` by a tool call.

    `number`, such as the turn's, tells the call's id from others of the episode.
    """
    return command_as_call(Command(NAME, {KEY: code}), number)


def _code_argument(name: str, arguments: str) -> str:
    if name != NAME:
        raise ToolError(unknown_message("tool", name, [NAME]))
    try:
        code = json.loads(arguments)[KEY]
    except (ValueError, RecursionError, TypeError, LookupError):
        raise ToolError(f"python needs {KEY!r} as a JSON object") from None
    if not isinstance(code, str) or not code.strip():
        raise ToolError("there is no code")
    return code
