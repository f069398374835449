"""Parse the text of a reply into a message with content and tool calls, and compose the text of a message.

Tool calls are in the Hermes format: `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from agents.control_tokens import strip_marks
from envs.types import Message, ToolCall, call_id

_THINK = re.compile(r"\s*<think>")
_CALL = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)


def parse(text: str, calls_before: int = 0) -> Message:
    """Return the assistant message that a reply's text stands for.

    Each well-formed call after the last `</think>` becomes an entry of `tool_calls`, numbered from `calls_before` so
    that ids are unique in a dialogue; the content is the stripped text around them. Malformed calls stay in the
    content. Without a well-formed call the content is the text unchanged.
    """
    thinking, end_tag, answer = text.rpartition("</think>")
    tool_calls: list[ToolCall] = []

    def extract(match: re.Match[str]) -> str:
        call = _parse_call(match[1], calls_before + len(tool_calls))
        if call is None:
            return match[0]
        tool_calls.append(call)
        return ""

    content = _CALL.sub(extract, answer)
    if not tool_calls:
        return {"role": "assistant", "content": text}
    return {"role": "assistant", "content": (thinking + end_tag + content).strip(), "tool_calls": tool_calls}


def compose(message: Message) -> str:
    """Return the text of a message, its tool calls in the Hermes format after its content: the inverse of `parse`."""
    blocks = [
        json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False) for name, arguments in calls(message)
    ]
    return "".join([message["content"] or "", *(f"<tool_call>{block}</tool_call>" for block in blocks)])


def mark_thinking_apart(content: str, mark: Callable[[str], str]) -> str:
    """Return the content of a reply with `mark` applied to what is not the `<think>` and `</think>` of its reasoning.

    These are a `<think>` that the content begins with and the last `</think>`.
    """
    thinking, end_tag, answer = content.rpartition("</think>")
    if not end_tag:
        thinking, answer = answer, ""
    start_tag = _THINK.match(thinking)
    cut = start_tag.end() if start_tag else 0
    return thinking[:cut] + mark(thinking[cut:]) + end_tag + mark(answer)


def calls(message: Message) -> list[tuple[str, object]]:
    """Return name and arguments of each tool call; arguments that are not JSON stay text."""
    return [
        (call["function"]["name"], read_arguments(call["function"]["arguments"]))
        for call in message.get("tool_calls") or ()
    ]


def read_arguments(arguments: object) -> object:
    """Decode a call's JSON text; return anything that is not text, or not JSON, as it is."""
    try:
        return json.loads(arguments) if isinstance(arguments, str) else arguments
    except ValueError:
        return arguments


def has_thinking(message: Message) -> bool:
    """Whether a reply holds `</think>`, the end of a thinking block; its start may belong to the prompt."""
    return "</think>" in message["content"]


def _parse_call(text: str, number: int) -> ToolCall | None:
    try:
        call = json.loads(text)
        if not isinstance(call, dict) or not isinstance(call.get("name"), str):
            return None
        arguments = call.get("arguments", {})
        arguments = strip_marks(arguments)
        arguments_json = json.dumps(arguments, ensure_ascii=False)
        (
            strip_marks(call["name"]) + arguments_json
        ).encode()  # raises for half a surrogate pair, which cannot be written to any file
    except (ValueError, RecursionError):
        return None
    if not isinstance(arguments, dict):
        return None
    return {
        "id": call_id(number),
        "type": "function",
        "function": {"name": call["name"], "arguments": arguments_json},
    }
