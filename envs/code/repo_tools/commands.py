"""The seven commands on a repository: their schemas, and parsing them from tool calls and from lines of text."""

from __future__ import annotations

import re

from envs.grading.lines import answer_line, drop_reasoning
from envs.tools.tool_calls import Command, function_schema, parse_tool_call, reply_text
from envs.types import Message, ToolError, assistant

_PATH = {"path": "The file."}
TOOLS = (
    function_schema("list", "List the files.", {}),
    function_schema(
        "read", "Show a file, or some of its lines.", _PATH, {"lines": "Such as 3 or 3-9, counted from 1."}
    ),
    function_schema("search", "List the lines of all files that hold a text.", {"text": "The text, letter by letter."}),
    function_schema(
        "edit",
        "Replace a text that the file has exactly once.",
        {**_PATH, "old": "The text that stands there.", "new": "What is to stand there."},
    ),
    function_schema("write", "Make a file or replace all of it.", {**_PATH, "content": "The whole file."}),
    function_schema("run", "Run the tests or, if there is code, this Python program.", {}, {"code": "The program."}),
    function_schema("submit", "Hand the repository in, which ends the episode.", {}),
)
RULES = (
    "Each turn reply with one of: `list`; `read PATH` or `read PATH 3-9`; `search TEXT`; `edit PATH`, and on the lines "
    "after it the old text, a line `=>` and the new text; `write PATH`, and on the lines after it the file; `run` for "
    "the tests, or `run` and a Python program on the lines after it; `submit` when it is done."
)
_NAMES = ("list", "read", "search", "edit", "write", "run", "submit")
_FENCE = re.compile(r"\A```\w*\n(.*?)\n?```\Z", re.DOTALL)
_ARROW = re.compile(r"^[ \t]*=>[ \t]*$", re.MULTILINE)


def parse_command(message: Message) -> Command:
    """Parse the command of a reply: its first tool call or, without one, its text, whose first line names the command.

    Sentences before that line are dropped (`envs.grading.lines.drop_reasoning`); of a reply that names no command there
    the last line counts. `read a.py 3-9` is `Command("read", {"path": "a.py", "lines": "3-9"})`. Raises ToolError,
    whose text is for the policy, for a reply without a command or with wrong arguments.
    """
    if message.get("tool_calls"):
        return parse_tool_call(message, TOOLS)
    reply = reply_text(message)
    head, _, body = _strip_fence(drop_reasoning(reply)).strip().partition("\n")
    if head.strip().partition(" ")[0] not in _NAMES:
        head, body = answer_line(reply).strip("`"), ""
    name, _, rest = head.strip().partition(" ")
    rest = rest.strip()
    if name not in _NAMES:
        raise ToolError("no command; " + RULES)
    if name in ("list", "submit"):
        return _bare_command(name, rest + body)
    if name == "run":
        return Command(name, {"code": f"{rest}\n{_strip_fence(body)}".strip("\n")})
    if name == "search" and rest:
        return Command(name, {"text": rest})
    path, _, lines = rest.partition(" ")
    if path and name == "read":
        return Command(name, {"path": path, "lines": lines})
    if path and name == "write" and not lines:
        return Command(name, {"path": path, "content": _strip_fence(body).rstrip("\n") + "\n"})
    if path and name == "edit" and not lines:
        return _parse_edit(path, body)
    raise ToolError(RULES)


def command_as_text(command: Command) -> Message:
    """Write the assistant message that gives `command` as plain text, without a tool call.

    `parse_command` reads it back: `read a.py`, or `edit a.py`, the old text, `=>` and the new text on lines of their
    own.
    """
    arguments = dict(command.arguments)
    if command.name == "edit":
        return assistant(f"edit {arguments['path']}\n{arguments['old']}\n=>\n{arguments['new']}")
    if command.name == "write":
        return assistant(f"write {arguments['path']}\n{arguments['content'].rstrip()}")
    return assistant(" ".join([command.name, *arguments.values()]))


def _bare_command(name: str, rest: str) -> Command:
    if rest.strip():
        raise ToolError(f"`{name}` stands alone in its reply")
    return Command(name, {})


def _parse_edit(path: str, body: str) -> Command:
    parts = _ARROW.split(_strip_fence(body))
    if len(parts) != 2 or not parts[0].strip():
        raise ToolError("an edit needs the old text, a line `=>` and the new text")
    return Command("edit", {"path": path, "old": parts[0].removesuffix("\n"), "new": parts[1].removeprefix("\n")})


def _strip_fence(body: str) -> str:
    fence = _FENCE.fullmatch(body.strip())
    return fence[1] if fence else body
