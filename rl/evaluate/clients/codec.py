"""The chat-completions format of OpenAI's API: what is asked, and what an answer means. Pure functions."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from agents import reply
from envs.types import Message, ToolCall
from rl.evaluate.clients.client import Asked, Said

SEEDS = 2**31  # some servers take no larger seed
BROKEN_OFF = ("abort", "cancelled", "error")  # finish reasons of a server that was stopped while it sampled


def request(asked: Asked, model: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The body of a request. `fields` replace the fields of these names; None leaves one out."""
    params = asked.params
    body: dict[str, Any] = {
        "model": model,
        "messages": [_sent(message) for message in asked.messages],
        "max_tokens": params.max_tokens,
        "temperature": params.temperature,
        "seed": params.seed % SEEDS,
    }
    if params.top_p < 1:
        body["top_p"] = params.top_p
    if params.top_k:
        body["top_k"] = params.top_k
    if asked.tools:
        body["tools"] = list(asked.tools)
    return {key: value for key, value in {**body, **fields}.items() if value is not None}


def read(answer: Any, asked: Asked) -> Said:
    """The reply in an answer. Raises `ValueError` for what is no answer of this API, or one that was broken off.

    Where tools were offered and the server reads no calls, those written as text are read here.
    """
    try:
        choice = answer["choices"][0]
        message, reason = choice["message"], choice.get("finish_reason")
        usage = answer.get("usage") or {}
        tokens = int(usage.get("completion_tokens") or 0)
        context = int(usage.get("total_tokens") or 0) or int(usage.get("prompt_tokens") or 0) + tokens
        content = _text(message.get("content")) or _text(message.get("refusal"))
        number = sum(len(earlier.get("tool_calls") or ()) for earlier in asked.messages)
        calls = [_call(call, number + i) for i, call in enumerate(message.get("tool_calls") or ())]
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise ValueError(error_text(answer) or f"no chat completion: {_short(answer)}") from error
    if reason in BROKEN_OFF:
        raise ValueError(f"the reply was broken off (finish_reason {reason!r})")
    said: Message = {"role": "assistant", "content": content}
    if calls:
        said["tool_calls"] = calls
    elif asked.tools:
        said = reply.parse(content, number)
    return Said(said, "length" if reason == "length" else "stop", tokens, context)


def error_text(answer: Any) -> str:
    """What a server says of an error, in the form that it is usually said; empty for any other."""
    if not isinstance(answer, Mapping):
        return ""
    said = answer.get("error") or answer.get("message") or answer.get("detail")
    if isinstance(said, Mapping):
        said = said.get("message") or said.get("code")
    return _short(said) if said else ""


def _sent(message: Message) -> Mapping[str, Any]:
    """A message as servers take it: one that only calls tools has no content."""
    return {**message, "content": None} if message.get("tool_calls") and message["content"] == "" else message


def _text(content: Any) -> str:
    """Content as text; of blocks their text."""
    if isinstance(content, Sequence) and not isinstance(content, str):
        return "\n".join(block["text"] for block in content if block.get("type") == "text")
    if content is not None and not isinstance(content, str):
        raise TypeError(f"content is no text but {type(content).__name__}")
    return content or ""


def _call(call: Any, number: int) -> ToolCall:
    """A call with a name, an id and arguments as JSON text, which not every server gives."""
    name, arguments = call["function"]["name"], call["function"].get("arguments")
    if not isinstance(name, str) or not name:
        raise ValueError("a tool call without a name")
    printed = arguments if isinstance(arguments, str) and arguments else json.dumps(arguments or {})
    return {
        "id": str(call.get("id") or reply.call_id(number)),
        "type": "function",
        "function": {"name": name, "arguments": printed},
    }


def _short(value: Any) -> str:
    text = " ".join((value if isinstance(value, str) else json.dumps(value, default=repr)).split())
    return text if len(text) <= 300 else f"{text[:300]}..."
