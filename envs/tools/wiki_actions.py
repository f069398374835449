"""Actions on a wiki: parse a search, a page to read or the answer from a reply, and write them as replies."""

from __future__ import annotations

import json
import re
from typing import NamedTuple

from envs.grading.declaration import find_declaration, single_line
from envs.grading.lines import last_line
from envs.suggestions import unknown_message
from envs.tools.tool_calls import Command, check_readable, command_as_call, function_schema
from envs.types import Function, Message, ToolError, assistant, final_text

MAX_NAME = 20  # a word of fewer characters counts as an answer by itself
_COMMANDS = {"s": "search", "search": "search", "r": "read", "read": "read", "answer": "answer"}
_COMMAND = re.compile(r"(s|search|r|read|answer)(?:\s+|\s*[:(=]\s*)(\S.*)", re.IGNORECASE)
_WRAPPING = " \t\"'`*.()"


class WikiAction(NamedTuple):
    """One turn's action: "search" with a query, "read" with a title or "answer" with a name."""

    name: str
    argument: str


ARGUMENTS = {"search": "query", "read": "title", "answer": "text"}
TOOLS = (
    function_schema("search", "List the pages that fit some words best.", {"query": "The words."}),
    function_schema("read", "Show a page.", {"title": "The title of the page."}),
    function_schema("answer", "Give the final answer, which ends the episode.", {"text": "The answer: one name."}),
)


def parse_action(message: Message) -> WikiAction:
    """Return the action of a reply: that of its first tool call or, without a call, of its text.

    In a text the last line counts if it is a command: `s old cook` or `search old cook`, `r Bel` or `read Bel`, `answer
    Tor`. Any other text is an answer if it is one short line, ends in one after its reasoning, or declares one
    (`envs.grading.declaration`). Raises ToolError for a reply that is none of these.
    """
    calls = message.get("tool_calls")
    if calls:
        check_readable(calls[0])
        return _parse_call(calls[0]["function"])
    reply = final_text(message).strip()
    if reply.lower() in _COMMANDS:
        raise ToolError(f"{_COMMANDS[reply.lower()]} needs words after it")
    if reply.isalpha() and len(reply) < MAX_NAME:  # a name, most of the time
        return WikiAction("answer", reply)
    command = _COMMAND.fullmatch(last_line(reply))
    if command:
        name, argument = _COMMANDS[command[1].lower()], command[2].strip(_WRAPPING)
        if not argument:
            raise ToolError(f"{name} needs words after it")
        return WikiAction(name, argument)
    claim = find_declaration(reply)
    answer = claim.text if claim.kind in ("marked", "phrase") else single_line(reply)
    if not answer:
        raise ToolError("neither a search nor a title to read nor an answer")
    return WikiAction("answer", answer)


def action_as_call(action: WikiAction, number: int) -> Message:
    """Write the assistant message that takes `action` by a tool call.

    `number`, such as the turn's, tells the call's id from others of the episode.
    """
    return command_as_call(Command(action.name, {ARGUMENTS[action.name]: action.argument}), number)


def action_as_text(action: WikiAction) -> Message:
    """Write the shortest assistant message that takes `action`: `s old cook`, `r Bel`, or the bare answer `Tor`."""
    return assistant(action.argument if action.name == "answer" else f"{action.name[0]} {action.argument}")


def _parse_call(function: Function) -> WikiAction:
    name = function["name"]
    if name not in ARGUMENTS:
        raise ToolError(unknown_message("tool", name, ARGUMENTS))
    key = ARGUMENTS[name]
    try:
        arguments = json.loads(function["arguments"])
    except (ValueError, RecursionError):
        raise ToolError(f"the arguments of {name} are no JSON") from None
    value = arguments.get(key) if isinstance(arguments, dict) else None
    if not isinstance(value, str) or not value.strip():
        raise ToolError(f"{name} needs {key!r}, a text that is not empty")
    return WikiAction(name, value.strip())
