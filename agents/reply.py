"""Parse the text of a reply into a message with content and tool calls, and compose the text of a message."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from agents.control_tokens import strip_marks
from agents.tool_calls.parsing import Call, ToolFormat, argument_types
from agents.tool_calls.tagged import HERMES, START
from envs.types import Message, ToolCall, call_id

MALFORMED = "malformed_call"  # the name of a call whose tool cannot be read
_THINK = re.compile(r"\s*<think>")


def parse(text: str, calls_before: int = 0, form: ToolFormat = HERMES, tools: Sequence[dict] = ()) -> Message:
    """Return the assistant message that a reply's text stands for.

    Args:
        text: The text, in which marks (`agents.control_tokens`) hide what is no control token.
        calls_before: Number of the first call, so that ids are unique in a dialogue.
        form: The form of calls that the model's family writes.
        tools: The tools that the model was offered, as OpenAI function schemas.

    Each well-formed call after the last `</think>` becomes an entry of `tool_calls`; the content is the stripped text
    around them. A malformed call becomes one too if there are tools: with `error`, which says what is wrong and what
    form is expected. Without tools it stays in the content. Without any call the content is the text unchanged.
    """
    text = form.set_thinking(text)
    thinking, end_tag, answer = text.rpartition("</think>")
    if not end_tag and _THINK.match(text):
        thinking, answer = text, ""  # cut off in the middle of its reasoning
    reply = form.read(answer, argument_types(tools))
    if not reply.calls and START in answer:  # many models know this form too
        reply = HERMES.read(answer, argument_types(tools))
    tool_calls: list[ToolCall] = []
    for call in reply.calls:
        if isinstance(call, Call):
            tool_calls.append(_tool_call(call.name, call.arguments, calls_before + len(tool_calls)))
        elif tools:
            name = call.name.strip()
            entry = _tool_call(name or MALFORMED, {"text": call.text}, calls_before + len(tool_calls))
            entry["error"] = f"this call cannot be read: {call.problem}. Write a call like this:\n{form.example}"
            tool_calls.append(entry)
    if not tool_calls:
        return {"role": "assistant", "content": strip_marks(text)}
    content = reply.content
    if not tools:
        content += "".join(call.text for call in reply.calls if not isinstance(call, Call))
    return {"role": "assistant", "content": strip_marks(thinking + end_tag + content).strip(), "tool_calls": tool_calls}


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


def split_thinking(content: str) -> tuple[str, str]:
    """Return the reasoning of a reply, without its tags and white space, and the answer after it."""
    thinking, end_tag, answer = content.rpartition("</think>")
    return (_THINK.sub("", thinking, count=1).strip(), answer.lstrip("\n")) if end_tag else ("", content)


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
    except (ValueError, RecursionError):
        return arguments


def has_thinking(message: Message) -> bool:
    """Whether a reply holds reasoning that is complete and not empty; its start may belong to the prompt."""
    return bool(split_thinking(message["content"])[0])


def _tool_call(name: str, arguments: dict[str, Any], number: int) -> ToolCall:
    arguments_json = json.dumps(arguments, ensure_ascii=False)
    return {
        "id": call_id(number),
        "type": "function",
        "function": {"name": name, "arguments": arguments_json},
    }
