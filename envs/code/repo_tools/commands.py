"""What a reply wants done with a repository: one of seven tools, called or written as a line of text."""

from __future__ import annotations

import re

from envs.code.text_tools import Call, called, schema
from envs.tools.snippets import after_thought
from envs.types import Message, ToolError, assistant

_PATH = {"path": "The file."}
TOOLS = (
    schema("list", "List the files.", {}),
    schema("read", "Show a file, or some of its lines.", _PATH, {"lines": "Such as 3 or 3-9, counted from 1."}),
    schema("search", "List the lines of all files that hold a text.", {"text": "The text, letter by letter."}),
    schema(
        "edit",
        "Replace a text that the file has exactly once.",
        {**_PATH, "old": "The text that stands there.", "new": "What is to stand there."},
    ),
    schema("write", "Make a file or replace all of it.", {**_PATH, "content": "The whole file."}),
    schema("run", "Run the tests or, if there is code, this Python program.", {}, {"code": "The program."}),
    schema("submit", "Hand the repository in, which ends the episode.", {}),
)
RULES = (
    "Each turn reply with one of: `list`; `read PATH` or `read PATH 3-9`; `search TEXT`; `edit PATH`, and on the lines "
    "after it the old text, a line `=>` and the new text; `write PATH`, and on the lines after it the file; `run` for "
    "the tests, or `run` and a Python program on the lines after it; `submit` when it is done."
)
_NAMES = ("list", "read", "search", "edit", "write", "run", "submit")
_FENCE = re.compile(r"\A```\w*\n(.*?)\n?```\Z", re.DOTALL)
_ARROW = re.compile(r"^[ \t]*=>[ \t]*$", re.MULTILINE)


def asked(message: Message) -> Call:
    """The call that a reply makes: its first tool call or, without one, what its text says from the first line on.

    Raises ToolError where it makes none.
    """
    if message.get("tool_calls"):
        return called(message, TOOLS)
    said = after_thought(message)
    fenced = _FENCE.fullmatch(said)
    head, _, body = (fenced[1].strip() if fenced else said).partition("\n")
    name, _, rest = head.strip().partition(" ")
    rest = rest.strip()
    if name not in _NAMES:
        raise ToolError("no command; " + RULES)
    if name in ("list", "submit"):
        return _without(name, rest + body)
    if name == "run":
        return Call(name, {"code": f"{rest}\n{_unfenced(body)}".strip("\n")})
    if name == "search" and rest:
        return Call(name, {"text": rest})
    path, _, lines = rest.partition(" ")
    if path and name == "read":
        return Call(name, {"path": path, "lines": lines})
    if path and name == "write" and not lines:
        return Call(name, {"path": path, "content": _unfenced(body).rstrip("\n") + "\n"})
    if path and name == "edit" and not lines:
        return _edit(path, body)
    raise ToolError(RULES)


def saying(call: Call) -> Message:
    """The message that makes a call in as few bytes as can be."""
    given = dict(call.given)
    if call.name == "edit":
        return assistant(f"edit {given['path']}\n{given['old']}\n=>\n{given['new']}")
    if call.name == "write":
        return assistant(f"write {given['path']}\n{given['content'].rstrip()}")
    return assistant(" ".join([call.name, *given.values()]))


def _without(name: str, rest: str) -> Call:
    if rest.strip():
        raise ToolError(f"`{name}` stands alone in its reply")
    return Call(name, {})


def _edit(path: str, body: str) -> Call:
    parts = _ARROW.split(_unfenced(body))
    if len(parts) != 2 or not parts[0].strip():
        raise ToolError("an edit needs the old text, a line `=>` and the new text")
    return Call("edit", {"path": path, "old": parts[0].removesuffix("\n"), "new": parts[1].removeprefix("\n")})


def _unfenced(body: str) -> str:
    fenced = _FENCE.fullmatch(body.strip())
    return fenced[1] if fenced else body
