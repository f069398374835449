"""The tools of an MCP server as an environment: `mcp:https://...`, `mcp:python server.py`, `mcp:file.py:make`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from envs.adapters.action_schema import example_value
from envs.adapters.foreign_env import ForeignEnv, Style
from envs.adapters.mcp import goals
from envs.adapters.mcp.connection import CallRefused, Connection, target_of
from envs.adapters.mcp.sdk import sdk
from envs.adapters.schemes import import_extra
from envs.data import NoSplit
from envs.episodes.guide import Guide
from envs.suggestions import unknown_message
from envs.tools.tool_env import ToolEnv
from envs.types import Message, Messages, Outcome, Task, ToolError, assistant, user

MAX_RESULT = 20_000  # characters of a result that the policy sees
MAX_ARGUMENTS = 200_000  # characters of a call's arguments
MAX_DEPTH = 32  # of lists and objects in arguments; a server may break off a connection over more
MAX_ERROR = 300  # characters of a message about arguments
_UNFIT = re.compile(r"[^a-zA-Z0-9_-]")  # characters of a name that OpenAI's API refuses


class MCPEnv(ToolEnv, ForeignEnv):
    """The tools of any MCP server, with goals of one's own.

    Each episode has a fresh connection and, unless the server is at a URL, a fresh server.

    Observation: the goal; then the results of the calls.
    Action: tool calls, native or as JSON on the last line, all made in order; a reply without a call is the answer and
    ends the episode.
    Tools: the server's, sorted by name; characters that OpenAI's API refuses in a name become `_`.
    Reward: at the end, what the checker returns, from 0 to 1; without a checker 1 if the task's `answer` is the last
    line of the reply and the calls of its `check` have the results that it names. Success is a reward of 1.
    Episode end: after a reply without a call, or truncated after `max_turns`.
    Faults: arguments that do not fit a tool's schema, undeclared ones included, never reach the server. What it answers
    with an error is an observation; a server that dies, breaks the protocol or does not answer in time is an
    infrastructure fault.
    Splits: by the rows' `split`, "test" for those without.

    Args:
        name: A URL (streamable HTTP); `module:function` or `path/to/file.py:function` that returns a new server; or the
            command that starts a server on its standard input and output.
        tasks: JSON-lines file of tasks, or a function of a Python file that returns them: objects with a `goal`, and
            perhaps `answer`, `check`, `split`, `calls` (of the oracle) and `seed`. Default: one task.
        goal: Goal of that one task.
        checker: `module:function` or `path/to/file.py:function`: a function of an `envs.adapters.mcp.goals.Ending`.
        reset_tool: Tool of the server that is called at the beginning of an episode, with the task's `seed` if it takes
            one, and not offered. A server at a URL keeps its state otherwise.
        seconds: Limit of opening the server, and of each call.
        max_turns: Default 20.
        style: See `ForeignEnv`.
        **limits: Other arguments of `Env`.

    Raises:
        ValueError: A task is malformed, or the name or a function cannot be read.
        ImportError: The package mcp is not installed.
    """

    blocking = True
    max_turns = 20
    max_return = 1.0

    def __init__(
        self,
        name: str,
        /,
        *,
        tasks: str = "",
        goal: str = "",
        checker: str = "",
        reset_tool: str = "",
        seconds: float = 30.0,
        style: Style = "full",
        **limits: Any,
    ) -> None:
        super().__init__(name, style=style, **limits)
        if not seconds > 0:
            raise ValueError(f"seconds must be above 0, not {seconds}")
        sdk("mcp")
        self.rows = goals.load_rows(tasks, goal)
        self.checker, self.reset_tool = checker, reset_tool
        target_of(name)  # a name that cannot be read is an error now
        self._seconds = float(seconds)
        self._connection: Connection | None = None
        self._server_names: dict[str, str] = {}  # by the name that is offered
        self._schemas: dict[str, Mapping[str, Any]] = {}  # of arguments, by the server's name
        self.calls: list[dict[str, Any]] = []

    def tasks(self, split: str) -> Sequence[Task]:
        """Return the rows of a split. Raises NoSplit for none."""
        rows = [row for row in self.rows if row.get("split", "test") == split]
        if not rows:
            raise NoSplit(f"{self.name} has no tasks of the split {split!r}")
        return [
            Task(f"{split}/{i}", (user(row["goal"]),), row.get("answer"), metadata=row) for i, row in enumerate(rows)
        ]

    def start(self) -> Messages:
        """Open a fresh server and return the goal. Raises ConnectionError."""
        self.close()
        self.calls = []
        tools = self._open()
        self._schemas = {tool.name: _closed(tool.input_schema) for tool in tools}
        if self.reset_tool:
            self._reset_server()
        self._server_names = _offered_names([tool.name for tool in tools if tool.name != self.reset_tool])
        by_name = {tool.name: tool for tool in tools}
        self.tools = tuple(_openai_schema(offered, by_name[own]) for offered, own in self._server_names.items())
        return self.task.prompt

    def guide(self) -> Guide:
        """Say how to call tools and how to end."""
        example: dict[str, Any] = {"name": "TOOL", "arguments": {}}
        if self.tools:
            function = self.tools[0]["function"]
            example = {"name": function["name"], "arguments": _example_arguments(function["parameters"])}
        return Guide(
            goal=(
                "Reach the goal below with the tools that you are offered. You succeed if it is reached when you give "
                "your answer."
            ),
            reply=(
                "Call tools natively or as JSON on the last line of your reply: an object, or an array of objects. "
                "Calls are made in order, and the results come back to you. A reply without a call is your answer."
            ),
            thinking="You may think first; JSON, or an answer that the goal asks for, stands alone on the last line.",
            example=json.dumps(example),
            ending="Your answer ends the episode, and only then it is judged.",
            invalid="A reply whose calls all fail is answered with what was wrong, and uses up a turn.",
            heading="The goal:",
        )

    def call(self, name: str, arguments: str) -> str:
        """Validate a call and make it. Raises ToolError for the model's mistakes, ConnectionError for the server's."""
        if name not in self._server_names:
            raise ToolError(unknown_message("tool", name, self._server_names))
        values = self._parse(name, arguments)
        is_error, text = self._call_server(self._server_names[name], values)
        self.calls.append({"name": self._server_names[name], "arguments": values, "result": text})
        if is_error:
            raise ToolError(text)
        return text

    def answer(self, reply: str) -> Outcome:
        """Judge the episode by the answer, the calls, and the state of the server."""
        ending = goals.Ending(self.task.metadata, reply, tuple(self.calls), self._probe)
        reward = goals.judge(ending, self.checker)
        self._close_connection()
        return Outcome((), reward, True, reward == 1.0)

    def oracle(self) -> Iterator[Message]:
        """Make the `calls` of the task and give its `answer`. Raises NotImplementedError for a task without `calls`."""
        if "calls" not in self.task.metadata:
            return super().oracle()  # raises at once, so that callers learn that there is none
        return self._make_calls()

    def _make_calls(self) -> Iterator[Message]:
        offered = {own: name for name, own in self._server_names.items()}
        for call in self.task.metadata["calls"]:
            pair = (offered.get(call["name"], call["name"]), call.get("arguments", {}))
            yield assistant(tool_calls=[pair], first_id=self.turns)
        yield assistant(self.task.answer or "done")

    def close(self) -> None:
        """Close the connection, which ends a server that was started for the episode."""
        self._close_connection()

    def _open(self) -> list[Any]:
        self._connection = Connection(target_of(self.name), self._seconds)
        return self._connection.open()

    def _replay(self) -> None:
        """Bring a fresh server to the moment of the episode by the same calls."""
        if "://" in self.name:
            raise ConnectionError("an episode with a server at a URL cannot be copied")
        self._open()
        if self.reset_tool:
            self._reset_server()
        for call in self.calls:
            self._call_server(call["name"], call["arguments"])

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_connection": None}

    def _close_connection(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _parse(self, name: str, arguments: str) -> dict[str, Any]:
        try:
            values = json.loads(arguments.strip() or "{}") if len(arguments) <= MAX_ARGUMENTS else None
            if not isinstance(values, dict):
                raise ToolError(f"the arguments of {name} are no JSON object")
            json.dumps(values, allow_nan=False, ensure_ascii=False).encode()  # what JSON on the wire cannot hold
            if not _is_flat(values, MAX_DEPTH):
                raise ToolError(f"the arguments of {name} are nested too deeply")
            validators = import_extra("jsonschema", "mcp")
            validator = validators.Draft202012Validator(self._schemas[self._server_names[name]])
            error = validators.exceptions.best_match(validator.iter_errors(values))
        except (ValueError, RecursionError):
            raise ToolError(f"the arguments of {name} are no JSON object") from None
        if error is not None:
            place = ".".join(map(str, error.path))
            raise ToolError(f"{name}: {f'argument {place!r}: ' if place else ''}{error.message[:MAX_ERROR]}")
        return values

    def _call_server(self, name: str, arguments: Mapping[str, Any]) -> tuple[bool, str]:
        """Whether the server answers with an error, and the text of its answer."""
        if self._connection is None:  # of a copy
            self._replay()
        assert self._connection is not None
        try:
            result = self._connection.call(name, arguments)
        except CallRefused as error:
            return True, str(error)
        return bool(getattr(result, "is_error", False)), _result_text(result)

    def _probe(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Call any tool of the server for the checker."""
        return self._call_server(name, arguments)[1]

    def _reset_server(self) -> None:
        if self.reset_tool not in self._schemas:
            raise ValueError(unknown_message("reset_tool", self.reset_tool, self._schemas, of=self.name))
        takes_seed = "seed" in self._schemas[self.reset_tool].get("properties", {})
        arguments = {"seed": self.task.metadata.get("seed", self.index)} if takes_seed else {}
        is_error, text = self._call_server(self.reset_tool, arguments)
        if is_error:
            raise RuntimeError(f"the tool {self.reset_tool} failed: {text}")


def _closed(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of arguments, which takes no undeclared ones unless it says so: servers drop them in silence."""
    return {"additionalProperties": False, **schema} if "properties" in schema else dict(schema)


def _offered_names(names: Sequence[str]) -> dict[str, str]:
    """The server's names by names that any API takes, all different."""
    offered: dict[str, str] = {}
    for name in names:
        plain = choice = _UNFIT.sub("_", name)[:60] or "tool"
        number = 2
        while choice in offered:
            choice, number = f"{plain}_{number}", number + 1
        offered[choice] = name
    return offered


def _openai_schema(name: str, tool: Any) -> dict[str, Any]:
    parameters = {"type": "object", "properties": {}, **tool.input_schema}
    function = {"name": name, "description": tool.description or "", "parameters": parameters}
    return {"type": "function", "function": function}


def _example_arguments(schema: Mapping[str, Any]) -> dict[str, Any]:
    properties = schema.get("properties", {})
    return {key: example_value(properties.get(key, {})) for key in schema.get("required", ())}


def _is_flat(value: Any, depth: int) -> bool:
    """Whether lists and objects are nested at most `depth` deep."""
    if not isinstance(value, dict | list):
        return True
    return depth > 0 and all(
        _is_flat(each, depth - 1) for each in (value.values() if isinstance(value, dict) else value)
    )


def _result_text(result: Any) -> str:
    """The texts of a result, a word for each other block; structured content only where there is no block."""
    blocks = [block.text if block.type == "text" else f"[{block.type}]" for block in result.content]
    structured = getattr(result, "structured_content", None)
    text = "\n".join(blocks) if blocks or structured is None else json.dumps(structured, ensure_ascii=False)
    return text if len(text) <= MAX_RESULT else f"{text[:MAX_RESULT]}\n... ({len(text)} characters)"
