"""Calls in `<tool_call>` tags: JSON (Hermes, Qwen3), XML (Qwen3-Coder, Qwen3.5 and later) and GLM-4.5's keys."""

from __future__ import annotations

from functools import partial
from typing import Any

from agents.tool_calls.parsing import (
    Call,
    CallError,
    ToolFormat,
    ToolReply,
    Types,
    make_call,
    read_blocks,
    read_json,
    read_value,
    split_blocks,
)

START, END = "<tool_call>", "</tool_call>"


def read_json_call(text: str) -> Call:
    """Read `{"name": ..., "arguments": {...}}`; `parameters` may stand for `arguments`, and both may be missing."""
    call = read_json(text)
    if not isinstance(call, dict):
        raise CallError("it is no JSON object")
    return make_call(call.get("name"), call.get("arguments", call.get("parameters", {})))


def _read_xml_call(text: str, types: Types) -> Call:
    name, closing, rest = text.partition("<function=")[2].partition(">")
    name = name.strip()
    if not (closing and name) or "<" in name:
        raise CallError("its <function=NAME> is not closed by >")
    body, end, _ = rest.rpartition("</function>")
    arguments: dict[str, Any] = {}
    for before, block, is_closed in split_blocks(body if end else rest, "<parameter=", "</parameter>"):
        if before.strip():
            raise CallError(f"there is text outside its parameters: {before.strip()[:40]!r}", name)
        if block is None:
            break
        key, separator, value = block.partition(">")
        if not (separator and is_closed):
            raise CallError(f"its parameter {key.strip()[:40]!r} is not closed by </parameter>", name)
        value = value.removeprefix("\n").removesuffix("\n")
        arguments[key.strip()] = read_value(value, types.get(name, {}).get(key.strip()))
    return make_call(name, arguments)


def _read_key_call(text: str, types: Types) -> Call:
    """GLM-4.5: the name, then pairs of `<arg_key>` and `<arg_value>`."""
    name, separator, rest = text.partition("<arg_key>")
    name = name.strip()
    if not name or any(sign in name for sign in "<>{}\n"):
        raise CallError("it does not begin with the name of a tool")
    arguments: dict[str, Any] = {}
    for before, key, is_closed in split_blocks(separator + rest, "<arg_key>", "</arg_key>"):
        value, end, gap = before.partition("</arg_value>")
        if arguments_key := next(reversed(arguments), None):
            start, tag, value = value.partition("<arg_value>")
            if start.strip() or not tag or not end:
                raise CallError(f"the value of {arguments_key[:40]!r} does not stand in <arg_value> tags", name)
            arguments[arguments_key] = read_value(value, types.get(name, {}).get(arguments_key))
        if (gap if arguments_key else before).strip():
            raise CallError("there is text outside its keys and values", name)
        if key is None:
            break
        if not is_closed or not key.strip():
            raise CallError("an <arg_key> is empty or not closed", name)
        arguments[key.strip()] = ""
    return make_call(name, arguments)


def _read_call(text: str, types: Types, *, keys: bool = False) -> Call:
    """Read a call by how its text begins: a model may write another form than its template asks for."""
    start = text.lstrip()
    if start.startswith("<function="):
        return _read_xml_call(start, types)
    return _read_key_call(text, types) if keys and not start.startswith("{") else read_json_call(text)


def _read(text: str, types: Types, *, keys: bool = False) -> ToolReply:
    return read_blocks(text, START, END, partial(_read_call, types=types, keys=keys))


HERMES = ToolFormat("hermes", '<tool_call>{"name": "TOOL", "arguments": {"ARGUMENT": "VALUE"}}</tool_call>', _read)
QWEN3_CODER = ToolFormat(
    "qwen3_coder",
    "<tool_call>\n<function=TOOL>\n<parameter=ARGUMENT>\nVALUE\n</parameter>\n</function>\n</tool_call>",
    _read,
)
GLM45 = ToolFormat(
    "glm45",
    "<tool_call>TOOL\n<arg_key>ARGUMENT</arg_key>\n<arg_value>VALUE</arg_value>\n</tool_call>",
    partial(_read, keys=True),
)
