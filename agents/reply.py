"""What the text of a reply means: content, and hermes-style calls in `<tool_call>` tags. Knows no tokens."""

from __future__ import annotations

import json
import re

from envs.types import Message, ToolCall

_CALL = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)


def parse(text: str, calls_before: int = 0) -> Message:
    """Read each well-formed `<tool_call>{"name": ..., "arguments": {...}}</tool_call>` after the thinking as a call.

    Calls are numbered from `calls_before`, so that ids are unique in a dialogue. The content is the text around them;
    without a call it is the text unchanged, and anything malformed stays in it.
    """
    thought, mark, said = text.rpartition("</think>")
    calls: list[ToolCall] = []

    def take(match: re.Match[str]) -> str:
        call = _read_call(match[1], calls_before + len(calls))
        if call is None:
            return match[0]
        calls.append(call)
        return ""

    rest = _CALL.sub(take, said)
    if not calls:
        return {"role": "assistant", "content": text}
    return {"role": "assistant", "content": (thought + mark + rest).strip(), "tool_calls": calls}


def compose(message: Message) -> str:
    """The inverse of `parse`: the text of a message, its calls after its content."""
    blocks = [
        json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False) for name, arguments in calls(message)
    ]
    return "".join([message["content"] or "", *(f"<tool_call>{block}</tool_call>" for block in blocks)])


def calls(message: Message) -> list[tuple[str, object]]:
    """The names and arguments of a message's calls; arguments that are no JSON stay text."""
    return [
        (call["function"]["name"], read_arguments(call["function"]["arguments"]))
        for call in message.get("tool_calls") or ()
    ]


def read_arguments(arguments: object) -> object:
    """The value behind a call's JSON text; what is no text or no JSON is returned as it is."""
    try:
        return json.loads(arguments) if isinstance(arguments, str) else arguments
    except ValueError:
        return arguments


def call_id(number: int) -> str:
    """Nine letters and digits, because Mistral's templates take nothing else."""
    return f"call{number:05d}"


def is_thinking(message: Message) -> bool:
    """Whether a reply holds the end of a thinking block (its start may belong to the generation header)."""
    return "</think>" in message["content"]


def _read_call(text: str, number: int) -> ToolCall | None:
    try:
        call = json.loads(text)
        if not isinstance(call, dict) or not isinstance(call.get("name"), str):
            return None
        arguments = call.get("arguments", {})
        printed = json.dumps(arguments, ensure_ascii=False)
        (call["name"] + printed).encode()  # half a surrogate pair cannot be written to any file
    except (ValueError, RecursionError):
        return None
    if not isinstance(arguments, dict):
        return None
    return {"id": call_id(number), "type": "function", "function": {"name": call["name"], "arguments": printed}}
