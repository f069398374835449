"""Encodes requests and decodes responses of OpenAI's chat-completions API. Pure functions, no network."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from agents import reply
from envs.types import Message, ToolCall, call_id
from rl.evaluate.clients.client import ChatRequest, ChatResponse

REASONING_FIELDS = ("reasoning_content", "reasoning")  # where servers put what a model thought, beside the content
OWN_FIELDS = ("next_task", "skill")  # of `envs.types.Message`, which servers do not know
SEED_LIMIT = 2**31  # some servers reject larger seeds
ABORT_REASONS = ("abort", "cancelled", "error")  # finish reasons of a server that was stopped while it sampled


def encode_request(request: ChatRequest, model: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON body of a request to `model`, the name by which the server knows the model.

    `fields` are set on top of the standard fields; a value of None removes the field.
    """
    params = request.params
    body: dict[str, Any] = {
        "model": model,
        "messages": [_encode_message(message) for message in request.messages],
        "max_tokens": params.max_tokens,
        "temperature": params.temperature,
        "top_p": params.top_p,  # also where it is off: a server may have a default of its own
        "seed": params.seed % SEED_LIMIT,
    }
    if params.top_k:
        body["top_k"] = params.top_k
    if request.tools:
        body["tools"] = list(request.tools)
    return {key: value for key, value in {**body, **fields}.items() if value is not None}


def decode_response(body: Any, request: ChatRequest) -> ChatResponse:
    """Read the reply and its numbers of tokens (0 if not given) from the parsed JSON of a response to `request`.

    If the request offered tools and the response has no `tool_calls`, calls are parsed from the text. Reasoning that
    the server has set apart is a field of the message, under the server's name for it; it is recorded, and sent back
    with the calls of its reply. Raises `ValueError` if the body is not a chat completion or if the server stopped while
    it sampled.
    """
    try:
        choice = body["choices"][0]
        message, reason = choice["message"], choice.get("finish_reason")
        usage = body.get("usage") or {}
        tokens = int(usage.get("completion_tokens") or 0)
        context = int(usage.get("total_tokens") or 0) or int(usage.get("prompt_tokens") or 0) + tokens
        content = _content_text(message.get("content")) or _content_text(message.get("refusal"))
        first_call = sum(len(earlier.get("tool_calls") or ()) for earlier in request.messages)
        calls = [_decode_call(call, first_call + i) for i, call in enumerate(message.get("tool_calls") or ())]
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise ValueError(error_text(body) or f"no chat completion: {_shorten(body)}") from error
    if reason in ABORT_REASONS:
        raise ValueError(f"the server stopped while it sampled the reply (finish_reason {reason!r})")
    reply_message: Message = {"role": "assistant", "content": content}
    if calls:
        reply_message["tool_calls"] = calls
    elif request.tools:
        reply_message = reply.parse(content, first_call)
    thoughts = {name: message[name] for name in REASONING_FIELDS if isinstance(message.get(name), str)}
    if thoughts:
        name = max(thoughts, key=lambda name: bool(thoughts[name]))  # the first one with a text in it
        if thoughts[name] or calls:  # a server may ask for its empty reasoning with the calls
            reply_message = {**reply_message, name: thoughts[name]}  # type: ignore[misc]
    return ChatResponse(reply_message, "length" if reason == "length" else "stop", tokens, context)


def error_text(body: Any) -> str:
    """Return the error message in the parsed JSON of a response, in any of the common formats; "" if there is none.

    It is one line of at most about 300 characters.
    """
    if not isinstance(body, Mapping):
        return ""
    error = body.get("error") or body.get("message") or body.get("detail")
    if isinstance(error, Mapping):
        error = error.get("message") or error.get("code")
    return _shorten(error) if error else ""


def _encode_message(message: Message) -> Mapping[str, Any]:
    """Set empty content to None next to tool calls, as servers require, and leave out our own keys.

    Reasoning belongs to the calls that it led to: servers of models that think between calls require it there, or write
    it into the prompt, and elsewhere take it out again or refuse it.
    """
    left_out = OWN_FIELDS if message.get("tool_calls") else (*REASONING_FIELDS, *OWN_FIELDS)
    fields = {key: value for key, value in message.items() if key not in left_out}
    return {**fields, "content": None} if fields.get("tool_calls") and fields["content"] == "" else fields


def _content_text(content: Any) -> str:
    """The text of a message's content, which is a string, a list of blocks or None."""
    if isinstance(content, Sequence) and not isinstance(content, str):
        return "\n".join(block["text"] for block in content if block.get("type") == "text")
    if content is not None and not isinstance(content, str):
        raise TypeError(f"content is no text but {type(content).__name__}")
    return content or ""


def _decode_call(call: Any, number: int) -> ToolCall:
    """A tool call with the id and the JSON arguments that some servers leave out."""
    name, arguments = call["function"]["name"], call["function"].get("arguments")
    if not isinstance(name, str) or not name:
        raise ValueError("a tool call without a name")
    arguments_json = arguments if isinstance(arguments, str) and arguments else json.dumps(arguments or {})
    return {
        "id": str(call.get("id") or call_id(number)),
        "type": "function",
        "function": {"name": name, "arguments": arguments_json},
    }


def _shorten(value: Any) -> str:
    """`value` on one line of at most about 300 characters."""
    text = " ".join((value if isinstance(value, str) else json.dumps(value, default=repr)).split())
    return text if len(text) <= 300 else f"{text[:300]}..."
