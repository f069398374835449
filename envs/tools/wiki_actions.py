"""Actions on a wiki: parse a search, a page to read or the answer from a reply, and write them as replies."""

from __future__ import annotations

import json
import re
from typing import NamedTuple

from envs.grading.declaration import find_declaration, single_line
from envs.grading.doubts import denies, leads_into_doubt
from envs.grading.lines import last_line, only_line
from envs.suggestions import unknown_message
from envs.tools.line_wrapping import unwrap_line
from envs.tools.text_calls import parse_single_call
from envs.tools.tool_calls import Command, check_readable, command_as_call, function_schema
from envs.types import Message, ToolError, assistant, final_text

MAX_SENTENCE = 200  # characters of a sentence that names the answer
MAX_NAME = 20  # a word of fewer characters counts as an answer by itself
_COMMANDS = {"s": "search", "search": "search", "r": "read", "read": "read", "answer": "answer"}
_COMMAND = re.compile(r"(s|search|r|read|answer)(?:\s+|\s*[:(=]\s*)(\S.*)", re.IGNORECASE)
_INTENTION = re.compile(
    r"(?:(?:so|then|now|next|first|ok|okay),?\s+)?(?:(?:i(?:['’]ll|\s+will|\s+now|\s+want\s+to)|let\s+me|let['’]s)\s+)"
    r"(?:now\s+|first\s+|next\s+)?(?=(?:search|read|answer)\b)",
    re.IGNORECASE,
)
_TAGGED = re.compile(r"<(search|read)>(.*?)</\1>", re.IGNORECASE)
_SENTENCE = re.compile(  # which names nothing before its last word
    r"(?:It|That|This|[Tt]he(?:\s+[a-z][\w'’-]*){1,12})(?:\s+is|['’]s)\s+([*`\"']{0,2}[A-Z][^\W\d_]{0,30}[*`\"']{0,2})[.!]?"
)
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
    Tor`, also in a list item, a code span, tags, or behind "I will" and the like; or if it is a call in JSON
    (`envs.tools.text_calls`). Any other text is an answer if it is one short line, ends in one after its reasoning, or
    declares one (`envs.grading.declaration`); of a sentence such as "The home of the old cook is Tor." the name counts
    if it has no other. Raises ToolError for a reply that is none of these.
    """
    calls = message.get("tool_calls")
    if calls:
        check_readable(calls[0])
        return _parse_call(**calls[0]["function"])
    reply = final_text(message).strip()
    if call := parse_single_call(reply):
        return _parse_call(*call)
    line = unwrap_line(last_line(reply), quoted=True)
    if line.lower() in _COMMANDS and line.isalpha():
        raise ToolError(f"{_COMMANDS[line.lower()]} needs words after it")
    if reply.isalpha() and len(reply) < MAX_NAME:  # a name, most of the time
        return WikiAction("answer", reply)
    line = line[intention.end() :] if (intention := _INTENTION.match(line)) else line
    command = _TAGGED.fullmatch(line) or _COMMAND.fullmatch(line)
    if command:
        name, argument = _COMMANDS[command[1].lower()], command[2].strip(_WRAPPING)
        if not argument:
            raise ToolError(f"{name} needs words after it")
        return WikiAction(name, argument)
    claim = find_declaration(reply)
    answer = claim.text if claim.kind in ("marked", "phrase") else _named_by_sentence(reply) or single_line(reply)
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


def _named_by_sentence(reply: str) -> str:
    """The name that the line that answers is a sentence about; "" for another line, or one that denies or doubts it."""
    line = only_line(reply)
    sentence = _SENTENCE.fullmatch(line) if len(line) < MAX_SENTENCE else None
    if sentence is None or leads_into_doubt(line[: sentence.start(1)]) or denies(line):
        return ""
    name = sentence[1].strip(_WRAPPING)
    others = (other for one in reply.splitlines() if len(one) < MAX_SENTENCE and (other := _SENTENCE.fullmatch(one)))
    return name if all(other[1].strip(_WRAPPING) == name for other in others) else ""


def _parse_call(name: str, arguments: str) -> WikiAction:
    if name not in ARGUMENTS:
        raise ToolError(unknown_message("tool", name, ARGUMENTS))
    key = ARGUMENTS[name]
    try:
        values = json.loads(arguments)
    except (ValueError, RecursionError):
        raise ToolError(f"the arguments of {name} are no JSON") from None
    value = values.get(key) if isinstance(values, dict) else None
    if not isinstance(value, str) or not value.strip():
        raise ToolError(f"{name} needs {key!r}, a text that is not empty")
    return WikiAction(name, value.strip())
