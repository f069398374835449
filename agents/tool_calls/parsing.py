"""What the readers of all families share: the result, reading JSON, and scanning a text for blocks in linear time."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from agents.control_tokens import strip_marks

MAX_DEPTH = 64  # of objects and arrays within the arguments of a call

Types = Mapping[str, Mapping[str, Any]]  # JSON schema types of arguments, by tool and argument


class Call(NamedTuple):
    """A well-formed call."""

    name: str
    arguments: dict[str, Any]


class MalformedCall(NamedTuple):
    """A call that cannot be read: its text, what is wrong, and the tool's name as far as it can be read."""

    text: str
    problem: str
    name: str = ""


@dataclass
class ToolReply:
    """A reply without its calls: `content`, the text around them, and `calls` in their order."""

    content: str
    calls: list[Call | MalformedCall] = field(default_factory=list)


@dataclass(frozen=True)
class ToolFormat:
    """A form of tool calls.

    Attributes:
        name: What `--tool-format` calls it.
        example: A call in this form, to be shown to a model that wrote a malformed one.
        read: Reads the answer of a reply, the text after its reasoning, given the types of arguments.
        set_thinking: Rewrites the text of a whole reply so that its reasoning stands in `<think>`, as everywhere else.

    """

    name: str
    example: str
    read: Callable[[str, Types], ToolReply]
    set_thinking: Callable[[str], str] = str


class CallError(ValueError):
    """A call that cannot be read; the text says what is wrong. `name` is the tool's, as far as it can be read."""

    def __init__(self, problem: str, name: str = "") -> None:
        super().__init__(problem)
        self.name = name


def argument_types(tools: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the schema type of each argument of each tool, None where the schema names none."""
    types = {}
    for tool in tools:
        function = tool.get("function") or {}
        properties = (function.get("parameters") or {}).get("properties") or {}
        types[str(function.get("name"))] = {
            key: schema.get("type") if isinstance(schema, Mapping) else None for key, schema in properties.items()
        }
    return types


def read_json(text: str) -> Any:
    """Decode JSON. Raises CallError for what is none, `NaN` and deep nesting included."""
    try:
        value = json.loads(text, parse_constant=_refuse)
    except RecursionError:
        raise CallError("it is nested too deeply") from None
    except ValueError as error:
        raise CallError(f"it is not valid JSON ({error})") from None
    if _depth_exceeds(value, MAX_DEPTH):
        raise CallError(f"it is nested more than {MAX_DEPTH} deep")
    return value


def make_call(name: Any, arguments: Any) -> Call:
    """Return the call without marks. Raises CallError for a name that is no text or arguments that are no object."""
    if not isinstance(name, str) or not name.strip():
        raise CallError('it has no "name" of a tool')
    name = strip_marks(name)
    if not isinstance(arguments, dict):
        raise CallError("its arguments are no JSON object", name)
    arguments = {strip_marks(key): strip_marks(value) for key, value in arguments.items()}
    try:
        (name + json.dumps(arguments, ensure_ascii=False)).encode()
    except UnicodeEncodeError:  # half a surrogate pair, which cannot be written to any file
        raise CallError("it holds half of a surrogate pair") from None
    return Call(name, arguments)


def call_or_malformed(read: Callable[[str], Call], text: str) -> Call | MalformedCall:
    """Return `read(text)`, or what is wrong with it."""
    try:
        return read(text)
    except CallError as error:
        return MalformedCall(strip_marks(text), strip_marks(str(error)), error.name)


def read_value(text: str, type_name: Any) -> Any:
    """Read an argument that is written without quotes: text if the schema says so, else JSON, else text again."""
    if type_name == "string" or (isinstance(type_name, list) and "string" in type_name and text != "null"):
        return text
    try:
        return read_json(text)
    except CallError:
        return text


def split_blocks(text: str, start: str, end: str) -> Iterator[tuple[str, str | None, bool]]:
    """Yield (text before, block, whether it is closed) for each block between `start` and `end`; at last (rest, None).

    A block that is not closed reaches to the end of the text.
    """
    position = 0
    while (opening := text.find(start, position)) >= 0:
        inner = opening + len(start)
        closing = text.find(end, inner)
        if closing < 0:
            yield text[position:opening], text[inner:], False
            return
        yield text[position:opening], text[inner:closing], True
        position = closing + len(end)
    yield text[position:], None, True


def read_blocks(text: str, start: str, end: str, read: Callable[[str], Call]) -> ToolReply:
    """Read a call from each block between `start` and `end`. An unclosed block is one if it is complete otherwise."""
    content: list[str] = []
    reply = ToolReply("")
    for before, block, is_closed in split_blocks(text, start, end):
        content.append(before)
        if block is None:
            continue
        call = call_or_malformed(read, block)
        if isinstance(call, MalformedCall):
            problem = call.problem if is_closed else f"it is not closed by {end}"
            call = MalformedCall(start + call.text + end * is_closed, problem, call.name)
        reply.calls.append(call)
    reply.content = "".join(content)
    return reply


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON")


def _depth_exceeds(value: Any, most: int) -> bool:
    level = [value]
    for _ in range(most):
        level = [
            item
            for parent in level
            if isinstance(parent, dict | list)
            for item in (parent.values() if isinstance(parent, dict) else parent)
        ]
        if not level:
            return False
    return True
