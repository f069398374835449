"""Calls in JSON after a control token or alone: Llama 3, Mistral and DeepSeek-V3."""

from __future__ import annotations

import json
import re

from agents.tool_calls.parsing import (
    Call,
    CallError,
    MalformedCall,
    ToolFormat,
    ToolReply,
    Types,
    call_or_malformed,
    make_call,
    read_blocks,
    read_json,
)
from agents.tool_calls.tagged import read_json_call

PYTHON_TAG = "<|python_tag|>"
TOOL_CALLS, CALL_ID, ARGS = "[TOOL_CALLS]", "[CALL_ID]", "[ARGS]"
CALL_START, CALL_END, SEPARATOR = "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>", "<｜tool▁sep｜>"
_CALLS = re.compile("<｜tool▁calls▁(?:begin|end)｜>")
_LOOKS_LIKE_CALL = re.compile(r'\{\s*"(?:name|type|function|parameters|arguments)"\s*:')


def _read_llama(text: str, types: Types) -> ToolReply:
    """A reply that is nothing but objects with `name` and `parameters`, with `;` or white space between them.

    Objects with a `name` of no tool and without parameters are answers in JSON, unless `<|python_tag|>` is before them.
    """
    content, tag, calls = text.rpartition(PYTHON_TAG)
    body = calls.strip()
    if not tag and not _LOOKS_LIKE_CALL.match(body):
        return ToolReply(text)
    reply = ToolReply(content.replace(PYTHON_TAG, ""))
    for part in _objects(body):
        call = call_or_malformed(read_json_call, part)
        if not tag and isinstance(call, Call) and call.name not in types and not call.arguments:
            return ToolReply(text)
        reply.calls.append(call)
    return reply


def _objects(text: str) -> list[str]:
    """Split objects that follow each other. From the first that is not well-formed on, the text is one part."""
    parts, position, decoder = [], 0, json.JSONDecoder()
    while position < len(text):
        try:
            _, end = decoder.raw_decode(text, position)
        except (ValueError, RecursionError):
            parts.append(text[position:])
            break
        parts.append(text[position:end])
        position = end
        while position < len(text) and text[position] in "; \t\r\n":
            position += 1
    return parts or [text]


def _read_mistral(text: str, types: Types) -> ToolReply:
    """`[TOOL_CALLS]` and an array of calls, or for each call `[TOOL_CALLS]`, its name, `[ARGS]` and its arguments."""
    content, *parts = text.split(TOOL_CALLS)
    reply = ToolReply(content)
    for part in parts:
        if ARGS in part:
            reply.calls.append(call_or_malformed(_read_named, part))
            continue
        try:
            calls = read_json(part)
        except CallError as error:
            reply.calls.append(MalformedCall(TOOL_CALLS + part, str(error)))
            continue
        for call in calls if isinstance(calls, list) else [calls]:
            reply.calls.append(call_or_malformed(read_json_call, json.dumps(call, ensure_ascii=False)))
    return reply


def _read_named(text: str) -> Call:
    name, _, arguments = text.partition(ARGS)
    return make_call(name.partition(CALL_ID)[0].strip(), read_json(arguments))


def _read_deepseek(text: str, types: Types) -> ToolReply:
    reply = read_blocks(text, CALL_START, CALL_END, _read_separated)
    reply.content = _CALLS.sub("", reply.content)
    return reply


def _read_separated(text: str) -> Call:
    """`function<sep>NAME` and a fenced object (V3), or `NAME<sep>` and an object (V3.1)."""
    name, separator, body = text.partition(SEPARATOR)
    if not separator:
        raise CallError(f"it has no {SEPARATOR} beside the name of the tool")
    if name.strip() == "function" and not body.lstrip().startswith("{"):
        name, _, body = body.strip().partition("\n")
    body = body.strip().removeprefix("```json").removesuffix("```")
    return make_call(name.strip(), read_json(body))


def _mistral_thinking(text: str) -> str:
    return text.replace("[THINK]", "<think>").replace("[/THINK]", "</think>")


LLAMA3_JSON = ToolFormat("llama3_json", '{"name": "TOOL", "parameters": {"ARGUMENT": "VALUE"}}', _read_llama)
MISTRAL = ToolFormat(
    "mistral",
    '[TOOL_CALLS][{"name": "TOOL", "arguments": {"ARGUMENT": "VALUE"}}]',
    _read_mistral,
    _mistral_thinking,
)
DEEPSEEK_V3 = ToolFormat(
    "deepseek_v3",
    f'{CALL_START}function{SEPARATOR}TOOL\n```json\n{{"ARGUMENT": "VALUE"}}\n```{CALL_END}',
    _read_deepseek,
)
