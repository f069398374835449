"""The seven commands on a repository: their schemas, and parsing them from tool calls and from lines of text."""

from __future__ import annotations

import re

from envs.grading.lines import answer_line, drop_reasoning
from envs.tools.line_wrapping import unwrap_line
from envs.tools.text_calls import parse_single_call
from envs.tools.tool_calls import Command, function_schema, parse_function, parse_tool_call, reply_text
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
TOOLS_WITHOUT_TESTS = tuple(
    function_schema("run", "Run a Python program; there are no tests to run.", {"code": "The program."}, {})
    if tool["function"]["name"] == "run"
    else tool
    for tool in TOOLS
)  # of a repository that has no visible tests
RULES = (
    "Each turn reply with one of: `list`; `read PATH` or `read PATH 3-9`; `search TEXT`; `edit PATH`, and on the lines "
    "after it the old text, a line `=>` and the new text; `write PATH`, and on the lines after it the file; `run` for "
    "the tests, or `run` and a Python program on the lines after it; `submit` when it is done."
)
# What follows `run` in a sentence, "Run the tests.", and is no program.
_THE_TESTS = re.compile(r"(all )?(of )?(the |its )?(unit )?tests?( suite)?( again| now)?[.!]?", re.IGNORECASE)
_NAMES = ("list", "read", "search", "edit", "write", "run", "submit")
_FENCE = re.compile(r"\A```\w*\n(.*?)\n?```\Z", re.DOTALL)
_ARROW = re.compile(r"^[ \t]*=>[ \t]*$", re.MULTILINE)


def parse_command(message: Message) -> Command:
    """Parse the command of a reply: its first tool call or, without one, its text, whose first line names the command.

    Sentences before that line are dropped (`envs.grading.lines.drop_reasoning`); of a reply that names no command there
    the last line counts, which may be a call in JSON (`envs.tools.text_calls`). A command on one line may begin with a
    capital letter and stand in a code span, in bold type, in a list item or behind a label. `read a.py 3-9` is
    `Command("read", {"path": "a.py", "lines": "3-9"})`. Raises ToolError, whose text is for the policy, for a reply
    without a command or with wrong arguments.
    """
    if message.get("tool_calls"):
        return parse_tool_call(message, TOOLS)
    reply = reply_text(message)
    head, _, body = _strip_fence(drop_reasoning(reply)).strip().partition("\n")
    if head.strip().partition(" ")[0] not in _NAMES:
        if call := parse_single_call(reply, refuse_hidden=False):
            return parse_function(*call, tools=TOOLS)
        if line := _command_line(answer_line(reply)):
            head, body = line, ""
        else:
            head = _command_line(head)
    name, _, rest = head.strip().partition(" ")
    rest = rest.strip()
    if name not in _NAMES:
        raise ToolError("no command; " + RULES)
    if name in ("list", "submit"):
        return _bare_command(name, rest + body)
    if name == "run" and not body.strip() and _THE_TESTS.fullmatch(rest):
        return Command(name, {"code": ""})
    if name == "run":
        return Command(name, {"code": f"{rest}\n{_strip_fence(body)}".strip("\n")})
    if name == "search" and rest:
        return Command(name, {"text": rest})
    path, _, lines = rest.partition(" ")
    path = path.strip("`'\"*").rstrip(".,")
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


def _command_line(line: str) -> str:
    """The command on a line, `submit` of "**Submit.**"; "" for a line that does not begin with a command's name."""
    name, space, rest = unwrap_line(line).partition(" ")
    name = name.strip("`*").lower()
    if not space:
        name = name.rstrip(".!")
    return f"{name}{space}{rest}" if name in _NAMES else ""


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
