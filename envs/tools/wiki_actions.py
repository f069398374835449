"""What a reply asks of a wiki: a search, a page, or the answer; as a tool call or as a line of text."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from envs.grading.declared import declaration, whole
from envs.suggestions import unknown
from envs.types import Function, Message, ToolCall, ToolError, assistant, spoken

SHORT = 20  # characters of a word that is taken for an answer at once
TAIL = 1000  # characters in which the last line is looked for
_COMMANDS = {"s": "search", "search": "search", "r": "read", "read": "read", "answer": "answer"}
_COMMAND = re.compile(r"(s|search|r|read|answer)(?:\s+|\s*[:(=]\s*)(\S.*)", re.IGNORECASE)
_WRAPPED = " \t\"'`*.()"


class Move(NamedTuple):
    """One turn's move: "search" with a query, "read" with a title or "answer" with a name."""

    name: str
    argument: str


def _schema(name: str, what: str, argument: str, meaning: str) -> dict[str, Any]:
    parameters = {
        "type": "object",
        "properties": {argument: {"type": "string", "description": meaning}},
        "required": [argument],
    }
    return {"type": "function", "function": {"name": name, "description": what, "parameters": parameters}}


ARGUMENTS = {"search": "query", "read": "title", "answer": "text"}
TOOLS = (
    _schema("search", "List the pages that fit some words best.", "query", "The words."),
    _schema("read", "Show a page.", "title", "The title of the page."),
    _schema("answer", "Give the final answer, which ends the episode.", "text", "The answer: one name."),
)


def asked(message: Message) -> Move:
    """The move that a reply makes: its first tool call or, without one, what its text says.

    Of a text the last line counts where it is a command: `s old cook` or `search old cook`, `r Bel` or `read Bel`,
    `answer Tor`. Any other text is an answer, if it is one short line or declares one as `envs.grading.declared` says.
    Raises ToolError for a reply that is none of these.
    """
    calls = message.get("tool_calls")
    if calls:
        return _called(calls[0]["function"])
    said = spoken(message).strip()
    if said.lower() in _COMMANDS:
        raise ToolError(f"{_COMMANDS[said.lower()]} needs words after it")
    if said.isalpha() and len(said) < SHORT:  # a name, most of the time
        return Move("answer", said)
    command = _COMMAND.fullmatch(said[-TAIL:].rpartition("\n")[2])
    if command:
        name, argument = _COMMANDS[command[1].lower()], command[2].strip(_WRAPPED)
        if not argument:
            raise ToolError(f"{name} needs words after it")
        return Move(name, argument)
    found = declaration(said)
    answer = found.text if found.kind in ("marked", "phrase") else whole(said)
    if not answer:
        raise ToolError("neither a search nor a title to read nor an answer")
    return Move("answer", answer)


def calling(move: Move, number: int) -> Message:
    """The message that makes a move by a tool call, the `number`-th of its dialogue."""
    arguments = json.dumps({ARGUMENTS[move.name]: move.argument})
    call: ToolCall = {
        "id": f"call{number:05d}",
        "type": "function",
        "function": {"name": move.name, "arguments": arguments},
    }
    return {"role": "assistant", "content": "", "tool_calls": [call]}


def saying(move: Move) -> Message:
    """The message that makes a move in as few bytes as can be."""
    return assistant(move.argument if move.name == "answer" else f"{move.name[0]} {move.argument}")


def _called(function: Function) -> Move:
    name = function["name"]
    if name not in ARGUMENTS:
        raise ToolError(unknown("tool", name, ARGUMENTS))
    key = ARGUMENTS[name]
    try:
        given = json.loads(function["arguments"])
    except (ValueError, RecursionError):
        raise ToolError(f"the arguments of {name} are no JSON") from None
    value = given.get(key) if isinstance(given, dict) else None
    if not isinstance(value, str) or not value.strip():
        raise ToolError(f"{name} needs {key!r}, a text that is not empty")
    return Move(name, value.strip())
