"""Tool calls written as text, for models without native tool calls: JSON, Python keywords, or words in short style."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from envs.types import ToolError

MAX_LINE = 20_000  # characters of a line that is read as a call
MAX_CODE = 4_000  # characters of a call in Python's syntax
FORM = '{"name": "TOOL", "arguments": {"KEY": "VALUE"}}'
_CODE = re.compile(r"([A-Za-z_]\w{0,63})\((.*)\)")


class TextCall(NamedTuple):
    """A call read from text: the tool's name, and its arguments as JSON text."""

    name: str
    arguments: str


def parse_text_calls(line: str) -> list[TextCall]:
    """Read the tool calls that a line consists of; none for a line that is not written as a call.

    A call is a JSON object `{"name": "send", "arguments": {"amount": 3}}`, a JSON array of such objects, or a Python
    call with literal keyword arguments, `send(amount=3)`. Raises ToolError for a line that begins like a call and
    cannot be read, with what to mend.
    """
    if line.startswith(("{", "[")) and len(line) <= MAX_LINE:
        return _parse_json(line)
    if line.endswith(")") and len(line) <= MAX_CODE and (match := _CODE.fullmatch(line)):
        return [TextCall(match[1], json.dumps(_keyword_values(line, match[1])))]
    return []


def parse_word_call(line: str, schemas: Mapping[str, Mapping[str, Any]]) -> TextCall | None:
    """Read a call in short style, `send pears 3`: the tool's name, then its arguments in their order.

    The last argument takes the rest of the line. `schemas` has the OpenAI function schema of each tool by name. Returns
    None if the first word is no tool's name.
    """
    name, *_ = line.split(maxsplit=1) or [""]
    if name not in schemas:
        return None
    properties = schemas[name]["function"]["parameters"]["properties"]
    words = line.split(maxsplit=len(properties))[1:]
    values = {key: _word_value(word, properties[key]) for key, word in zip(properties, words, strict=False)}
    return TextCall(name, json.dumps(values))


def _parse_json(line: str) -> list[TextCall]:
    looks_like_call = '"name"' in line[:200]
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        if looks_like_call:
            reason = str(error)[:80] if isinstance(error, ValueError) else "it is nested too deeply"
            raise ToolError(f"the call is no valid JSON: {reason}; its form is {FORM}") from None
        return []
    objects = value if isinstance(value, list) else [value]
    calls = []
    for each in objects:
        if not isinstance(each, dict) or "name" not in each:
            return []
        arguments = each.get("arguments", {})
        if not isinstance(each["name"], str) or not isinstance(arguments, dict):
            raise ToolError(f"a call has the form {FORM}")
        calls.append(TextCall(each["name"], json.dumps(arguments)))
    return calls


def _keyword_values(line: str, name: str) -> dict[str, Any]:
    try:
        call = ast.parse(line, mode="eval").body
        if not isinstance(call, ast.Call):
            raise ValueError
        if call.args or any(keyword.arg is None for keyword in call.keywords):
            raise ToolError(f"give the arguments of {name} by name, as in {name}(key=value)")
        values = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}
        json.dumps(values)
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        raise ToolError(f"the call of {name} cannot be read; its form is {FORM}") from None
    return values


def _word_value(word: str, schema: Mapping[str, Any]) -> Any:
    if schema.get("type") in ("integer", "number", "boolean"):
        try:
            value = json.loads(word)
        except (ValueError, RecursionError):
            return word
        return value if isinstance(value, int | float | bool) else word
    return word
