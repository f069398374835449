"""Tool calls written as text, for models without native tool calls: JSON, Python keywords, or words in short style."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from envs.tools.call_forms.native import FORM, TextCall, native_calls, plain_text
from envs.tools.line_wrapping import unwrap_line
from envs.types import ToolError

MAX_LINE = 20_000  # characters of a line that is read as a call
MAX_CODE = 4_000  # characters of a call in Python's syntax
MAX_PARTS = 64  # lines or blocks at the end of a reply that are read as calls
_CODE = re.compile(r"([A-Za-z_]\w{0,63})\((.*)\)")
_DECODER, _BETWEEN = json.JSONDecoder(), re.compile(r"[\s,]*")
_FENCE, _OPENING, _CLOSING = "```", "<tool_call>", "</tool_call>"
_CALL_START = re.compile(r'[\[\s]*\{\s*"(?:name|tool_calls|type"\s*:\s*"function)"\s*[:,]')
_EXTRA_COMMA = re.compile(r'("(?:[^"\\]|\\.)*(?:"|\\?\Z))|,(?=\s*[}\]])', re.DOTALL)  # beside texts, which stay
_BRACKETS = {"}": "{", "]": "["}  # what a value over several lines ends with, and begins with


def parse_reply_calls(
    text: str, read: Callable[[str], Sequence[TextCall]], *, exact: bool = False, refuse_hidden: bool = True
) -> list[TextCall]:
    """Read the tool calls that a reply ends with, in their order; none for a reply that does not end with a call.

    Those are its last line and the calls on the lines directly above it; or a last block of JSON over several lines, in
    a code fence, or in `<tool_call>` tags. One call may stand on the last line in a code span, in bold type, in a list
    item or behind a label such as `Action:`. Unless `exact`, the forms of model families are read too
    (`envs.tools.call_forms.native`). Raises ToolError for what looks like a call and is not read, so that no
    call is dropped in silence.

    Args:
        text: The reply.
        read: Reads a line or block, such as `parse_text_calls`.
        exact: Whether a call with anything around it on its line is refused.
        refuse_hidden: Whether a call beside other words is refused; else it is no call.
    """
    text = text.rstrip()
    if not exact:
        if calls := native_calls(text):
            return calls
        text = plain_text(text)
    if text.endswith(_CLOSING):
        return _in_tags(text, read)
    if text.endswith(_FENCE):
        head, _, block = text[: -len(_FENCE)].rpartition(_FENCE)
        language, _, block = block.partition("\n") if head or block else ("", "", "")
        text = block.strip() if len(language.split()) < 2 else ""
    return _on_lines(text, read, exact, refuse_hidden)


def parse_single_call(text: str, *, refuse_hidden: bool = True) -> TextCall | None:
    """Read the one call in JSON that a reply ends with; None for a reply that does not end with such a call.

    Raises ToolError as `parse_reply_calls` does, and for several calls, of which none is made.
    """
    calls = parse_reply_calls(text, _read_json, refuse_hidden=refuse_hidden)
    if len(calls) > 1:
        raise ToolError("one call a turn; no call was made")
    return calls[0] if calls else None


def parse_text_calls(line: str, *, exact: bool = False) -> list[TextCall]:
    """Read the tool calls that a line consists of; none for a line that is not written as a call.

    A call is a JSON object `{"name": "send", "arguments": {"amount": 3}}`, several of them, a JSON array of them, or a
    Python call with literal keyword arguments, `send(amount=3)`. Unless `exact`, the arguments may also be called
    `parameters` or be JSON in a text, and commas may stand before closing brackets. Raises ToolError for a line that
    begins like a call and cannot be read, with what to mend.
    """
    if not exact and line.startswith("[") and line.endswith(")]") and len(line) <= MAX_CODE:
        return _python_list(line)
    if line.startswith(("{", "[")) and len(line) <= MAX_LINE:
        return _parse_json(line, exact)
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


def _in_tags(text: str, read: Callable[[str], Sequence[TextCall]]) -> list[TextCall]:
    """Calls of the blocks in tags that the text ends with."""
    blocks: list[str] = []
    while text.endswith(_CLOSING) and len(blocks) < MAX_PARTS:
        text, opening, block = text[: -len(_CLOSING)].rpartition(_OPENING)
        if not opening:
            raise ToolError(f"{_CLOSING} has no {_OPENING} before it; the form of a call is {FORM}")
        blocks.append(block.strip())
        text = text.rstrip()
    calls: list[TextCall] = []
    for block in reversed(blocks):
        block_calls = read(block)
        if not block_calls:
            raise ToolError(f"what stands in {_OPENING} is no call; its form is {FORM}")
        calls += block_calls
    return calls


def _on_lines(text: str, read: Callable[[str], Sequence[TextCall]], exact: bool, refuse_hidden: bool) -> list[TextCall]:
    """Calls of the last lines of a text, or of the object or array that its last lines are."""
    end = text[-2 * MAX_LINE :]
    lines = end.rsplit("\n", MAX_PARTS)
    if (bracket := _BRACKETS.get(lines[-1].rstrip())) is not None:
        first = max((i for i, line in enumerate(lines) if line.startswith(bracket)), default=None)
        return [] if first is None else list(read("\n".join(lines[first:]).strip()))
    calls: list[TextCall] = []
    for line in reversed(lines):
        line_calls = read(line.strip())
        if not line_calls:
            break
        calls = [*line_calls, *calls]
    if not calls and not exact:
        calls = _in_wrapping(lines, read)
    if not calls and refuse_hidden and '{"name"' in end:
        _refuse_hidden_calls([line.strip() for line in lines[-2:]])
    return calls


def _in_wrapping(lines: Sequence[str], read: Callable[[str], Sequence[TextCall]]) -> list[TextCall]:
    """Calls of a last line with something around them; those of a line above may not stand so."""
    last, *above = (line if len(line) <= MAX_LINE else "" for line in reversed(lines[-2:]))
    if not (calls := _unwrapped_calls(last, read)):
        return []
    if any(_CALL_START.match(unwrap_line(line, quoted=True)) for line in above):
        raise ToolError("several calls stand on lines of their own, with nothing around them; no call was made")
    return calls


def _unwrapped_calls(line: str, read: Callable[[str], Sequence[TextCall]]) -> list[TextCall]:
    inner = unwrap_line(line)
    if inner == line.strip():
        return []
    try:
        return list(read(inner))
    except ToolError:
        if inner.startswith(("{", "[")):
            raise
        return []  # words with a bracket, such as a list item "f(x)"


def _refuse_hidden_calls(lines: Sequence[str]) -> None:
    """Raise ToolError for a last line that ends with a call after other words, or that follows a line with a call."""
    start = lines[-1].find('{"name"') if len(lines[-1]) <= MAX_LINE else -1
    if (start > 0 and lines[-1].endswith(("}", "]"))) or (len(lines) > 1 and lines[0].startswith('{"name"')):
        raise ToolError("a call must stand alone on the last line of the reply; no call was made")


def _read_json(line: str) -> list[TextCall]:
    """Calls in JSON alone, where lines may as well be code."""
    if not line.startswith(("{", "[")):
        return []
    try:
        return parse_text_calls(line)
    except ToolError:
        if _CALL_START.match(line):
            raise
        return []


def _parse_json(line: str, exact: bool) -> list[TextCall]:
    try:
        objects = _json_values(line, exact)
    except (ValueError, RecursionError) as error:
        if '"name"' in line[:200]:
            reason = str(error)[:80] if isinstance(error, ValueError) else "it is nested too deeply"
            raise ToolError(f"the call is no valid JSON: {reason}; its form is {FORM}") from None
        return []
    calls = []
    if not exact:
        objects = [inner for each in objects for inner in _inner_calls(each)]
    for each in objects:
        if not isinstance(each, dict) or "name" not in each:
            return []
        arguments = each.get("arguments", {}) if exact else _arguments_of(each)
        if not isinstance(each["name"], str) or not isinstance(arguments, dict):
            raise ToolError(f"a call has the form {FORM}")
        calls.append(TextCall(each["name"], json.dumps(arguments)))
    return calls


def _inner_calls(value: Any) -> list[Any]:
    """The calls within a value in the form of OpenAI's messages: `tool_calls` of a message, `function` of a call."""
    if isinstance(value, dict) and isinstance(value.get("tool_calls"), list) and "name" not in value:
        return [inner for each in value["tool_calls"] for inner in _inner_calls(each)]
    is_wrapped = isinstance(value, dict) and value.get("type") == "function" and isinstance(value.get("function"), dict)
    return [value["function"] if is_wrapped else value]


def _arguments_of(call: Mapping[str, Any]) -> Any:
    """The arguments of a call: under `arguments` or `parameters`, perhaps as JSON in a text."""
    arguments = call.get("arguments", call.get("parameters", {}))
    if not isinstance(arguments, str):
        return arguments
    try:
        return json.loads(arguments.strip() or "{}")
    except (ValueError, RecursionError):
        return arguments


def _json_values(text: str, exact: bool) -> list[Any]:
    """The values of a JSON array, or of values with nothing but spaces or commas between them."""
    try:
        return _decode_values(text)
    except ValueError:
        shortened_text = text if exact else _EXTRA_COMMA.sub(lambda match: match[1] or "", text)
        if shortened_text == text:
            raise
        return _decode_values(shortened_text)


def _decode_values(text: str) -> list[Any]:
    values: list[Any] = []
    place = 0
    while place < len(text):
        value, place = _DECODER.raw_decode(text, place)
        values.append(value)
        place = _BETWEEN.match(text, place).end()  # type: ignore[union-attr]
    return values[0] if len(values) == 1 and isinstance(values[0], list) else values


def _python_list(line: str) -> list[TextCall]:
    """Calls in Python's syntax within a list, `[send(amount=3), done()]`; none for a list of anything else."""
    try:
        tree = ast.parse(line, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    items = tree.elts if isinstance(tree, ast.List) else []
    names = [item.func.id for item in items if isinstance(item, ast.Call) and isinstance(item.func, ast.Name)]
    if len(names) != len(items):
        return []
    return [
        TextCall(name, json.dumps(_keyword_values(ast.unparse(item), name)))
        for name, item in zip(names, items, strict=True)
    ]


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
