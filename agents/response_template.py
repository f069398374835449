"""Reads a reply by the response template that a tokenizer brings, as newer Hugging Face models do."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agents.tool_calls.parsing import CallError, make_call
from envs.types import Message, ToolCall, call_id

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_THINKING_KEYS = ("reasoning_content", "thinking", "reasoning")


def parse_response(
    tokenizer: PreTrainedTokenizerBase,
    ids: Sequence[int],
    prompt: Sequence[int],
    tools: Sequence[dict],
    calls_before: int,
) -> Message | None:
    """Return the message that the tokenizer's `parse_response` reads, with its reasoning in `<think>`.

    None if it fails or reads something that is no message, as of a malformed call.
    """
    try:
        response = tokenizer.parse_response(list(ids), prefix=list(prompt), tools=list(tools) or None)
        return _to_message(response, calls_before)
    except Exception:  # whatever a template that is not ours does with a model's text
        return None


def _to_message(response: Any, calls_before: int) -> Message:
    if not isinstance(response, Mapping):
        raise CallError("no message")
    content = response.get("content") or ""
    if not isinstance(content, str):
        raise CallError("its content is no text")
    thinking = next((response[key] for key in _THINKING_KEYS if response.get(key)), "")
    text = f"<think>\n{thinking}\n</think>\n\n{content}" if thinking else content
    message: Message = {"role": "assistant", "content": text}
    tool_calls: list[ToolCall] = []
    for number, item in enumerate(response.get("tool_calls") or (), start=calls_before):
        function = item.get("function", item)
        arguments = function.get("arguments") or {}
        call = make_call(function["name"], json.loads(arguments) if isinstance(arguments, str) else arguments)
        tool_calls.append(
            {
                "id": call_id(number),
                "type": "function",
                "function": {"name": call.name, "arguments": json.dumps(call.arguments, ensure_ascii=False)},
            }
        )
    if tool_calls:
        message["tool_calls"] = tool_calls
    return message
