"""Serve a Turnwise environment to MCP clients: `python -m envs.adapters.mcp.server games/GuessNumber-v0`."""

from __future__ import annotations

import argparse
import json
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import gymnasium

import envs
from envs.adapters.mcp.sdk import sdk
from envs.adapters.schemes import import_extra
from envs.types import ToolError, assistant, text

SESSIONS = 16
EPISODE = "episode"
_EPISODE_SCHEMA = {"type": "string", "description": "Id of the episode, as begin_episode says it. Default: the latest."}
_OWN_SCHEMAS: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    "begin_episode": (
        "Begin an episode and get its instructions.",
        {
            "split": {
                "type": "string",
                "enum": ["train", "val", "test"],
                "description": "Default: the first there is.",
            },
            "index": {"type": "integer", "minimum": 0, "description": "Number of the task. Default: by the seed."},
            "seed": {"type": "integer", "minimum": 0, "description": "Default: 0."},
        },
        [],
    ),
    "reply": (
        "Give the environment a reply, as its instructions ask for, and get what it answers.",
        {"message": {"type": "string", "description": "The reply."}},
        ["message"],
    ),
}


class Sessions:
    """The episodes that clients play. Scores stay on this side: clients see messages alone.

    Args:
        spec: What `envs.make` takes.
        arguments: Arguments of the environment.
        limit: Episodes at a time; a further one ends the one that has not been played for longest.
        report: Called with a dict at the end of each episode: "episode", "env", "task", "seed", "turns", "return",
            "success" and "stop", which is "abandoned" for one that its client did not finish.
    """

    def __init__(
        self,
        spec: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        limit: int = SESSIONS,
        report: Callable[[Mapping[str, Any]], None] = lambda result: None,
    ) -> None:
        if limit < 1:
            raise ValueError(f"sessions must be at least 1, not {limit}")
        self._spec, self._arguments, self._limit, self._report = spec, dict(arguments or {}), limit, report
        self._episodes: OrderedDict[str, _Episode] = OrderedDict()
        self._count = 0
        self._lock = threading.Lock()
        env = envs.make(spec, **self._arguments)  # a wrong name or argument is an error now, not at the first episode
        self.tools: Sequence[Mapping[str, Any]] = getattr(env.unwrapped, "tools", ())
        env.close()

    def schemas(self) -> list[dict[str, Any]]:
        """Return name, description and argument schema of each tool: `begin_episode`, `reply`, the environment's."""
        own = [
            {"name": name, "description": about, "parameters": _object(properties, required)}
            for name, (about, properties, required) in _OWN_SCHEMAS.items()
        ]
        schemas = [*own, *(tool["function"] for tool in self.tools if tool["function"]["name"] not in _OWN_SCHEMAS)]
        return [schemas[0], *map(_with_episode, schemas[1:])]

    def call(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Make a call of a client and return the text of its result. Raises ToolError for what the client can mend."""
        arguments = dict(arguments)
        if name == "begin_episode":
            return self._begin(arguments)
        id = arguments.pop(EPISODE, None)
        with self._lock:
            if id is None:
                id = next(reversed(self._episodes), None)
            episode = self._episodes.get(str(id))
            if episode is None:
                raise ToolError("no such episode is running; call begin_episode first")
            self._episodes.move_to_end(str(id))
        if name == "reply":
            if not isinstance(arguments.get("message"), str):
                raise ToolError("reply needs the argument 'message', a text")
            action = assistant(arguments["message"])
        else:
            action = assistant(tool_calls=[(name, arguments)], first_id=episode.turns)
        answer, is_over = episode.step(action, is_call=name != "reply")
        if is_over:
            with self._lock:
                self._episodes.pop(str(id), None)
            self._end(episode)
        return answer

    def close(self) -> None:
        """End all episodes."""
        with self._lock:
            episodes = list(self._episodes.values())
            self._episodes.clear()
        for episode in episodes:
            self._end(episode)

    def _begin(self, arguments: Mapping[str, Any]) -> str:
        for key in arguments:
            if key not in _OWN_SCHEMAS["begin_episode"][1]:
                raise ToolError(f"begin_episode has no argument {key!r}")
        options = {key: arguments[key] for key in ("split", "index") if arguments.get(key) is not None}
        with self._lock:
            self._count += 1
            id = f"e{self._count}"
        episode = _Episode(id, envs.make(self._spec, **self._arguments), self._spec)
        try:
            opening = episode.begin(arguments.get("seed") or 0, options)
        except (ValueError, TypeError, IndexError) as error:
            episode.env.close()
            raise ToolError(" ".join(str(error).split())) from None
        with self._lock:
            self._episodes[id] = episode
            idle = [self._episodes.popitem(last=False)[1] for _ in range(len(self._episodes) - self._limit)]
        for each in idle:
            self._end(each)
        return f"Episode {id}.\n\n{opening}"

    def _end(self, episode: _Episode) -> None:
        with episode.lock:
            episode.env.close()
        self._report(episode.result)


class _Episode:
    """An episode with an instance of its own. One call at a time."""

    def __init__(self, id: str, env: Any, spec: str) -> None:
        self.env, self.turns, self.lock = env, 0, threading.Lock()
        self.result: dict[str, Any] = {"episode": id, "env": spec, "return": 0.0, "success": False, "stop": "abandoned"}

    def begin(self, seed: int, options: Mapping[str, Any]) -> str:
        messages, info = self.env.reset(seed=seed, options=options)
        self.result |= {"task": info["task"], "seed": seed, "turns": 0}
        return _join(messages)

    def step(self, action: Any, *, is_call: bool) -> tuple[str, bool]:
        """What the environment answers, and whether the episode is over. Raises ToolError for a call that failed."""
        with self.lock:
            if self.result["stop"] not in ("abandoned",):
                raise ToolError("the episode is over; call begin_episode for another one")
            try:
                messages, reward, terminated, truncated, info = self.env.step(action)
            except Exception as error:
                self.result |= {"stop": "error", "error": f"{type(error).__name__}: {error}"}
                return "The environment failed. The episode is over.", True
            self.turns += 1
            self.result["turns"] = self.turns
            self.result["return"] += float(reward)
            is_over = terminated or truncated
            if is_over:
                self.result |= {"success": info["success"], "stop": info["stop"]}
        answer = _join(messages)
        if is_call and not is_over and not info["valid"]:
            raise ToolError(answer.removeprefix("error: "))
        return "\n\n".join(filter(None, (answer, "The episode is over." if is_over else ""))), is_over


def server(sessions: Sessions, name: str) -> Any:
    """Return an `mcp.server.Server` that serves the episodes of `sessions` over any transport of the SDK.

    Raises ImportError if the package mcp is not installed.
    """
    lowlevel = sdk("mcp.server")
    types = sdk("mcp.types")
    anyio = import_extra("anyio", "mcp")

    async def list_tools(context: Any, params: Any) -> Any:
        tools = [
            types.Tool(name=each["name"], description=each["description"], input_schema=each["parameters"])
            for each in sessions.schemas()
        ]
        return types.ListToolsResult(tools=tools)

    async def call_tool(context: Any, params: Any) -> Any:
        try:
            answer = await anyio.to_thread.run_sync(sessions.call, params.name, params.arguments or {})
        except ToolError as error:
            return types.CallToolResult(content=[types.TextContent(type="text", text=str(error))], is_error=True)
        return types.CallToolResult(content=[types.TextContent(type="text", text=answer)])

    instructions = "Call begin_episode first; it says what to do. Then play with the other tools until it is over."
    return lowlevel.Server(name, instructions=instructions, on_list_tools=list_tools, on_call_tool=call_tool)


def command_line() -> argparse.ArgumentParser:
    """Return the parser of this command."""
    parser = argparse.ArgumentParser(prog="python -m envs.adapters.mcp.server", description=__doc__)
    parser.add_argument("env", metavar="ID", help="what --env takes")
    parser.add_argument("--env-arg", action="append", default=[], metavar="KEY=VALUE", help="an argument of the class")
    parser.add_argument("--port", type=int, help="serve streamable HTTP at /mcp of this port (default: stdio)")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen at (default: this machine alone)")
    parser.add_argument("--sessions", type=int, default=SESSIONS, help=f"episodes at a time (default: {SESSIONS})")
    parser.add_argument("--results", metavar="FILE", help="append a JSON line with the score of each episode")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until the client leaves, or until interrupted. Returns 2, after one line, for a wrong argument."""
    parser = command_line()
    args = parser.parse_args(argv)
    try:
        report = _appender(args.results) if args.results else lambda result: None
        arguments = envs.arguments(args.env_arg, envs.entry(args.env))
        sessions = Sessions(args.env, arguments, limit=args.sessions, report=report)
        app = server(sessions, args.env)
        anyio = import_extra("anyio", "mcp")
    except (ValueError, OSError, ImportError, gymnasium.error.Error) as error:
        print(f"{parser.prog}: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    try:
        if args.port is None:
            anyio.run(_serve_stdio, app)
        else:
            uvicorn = import_extra("uvicorn", "mcp")
            uvicorn.run(app.streamable_http_app(), host=args.host, port=args.port, log_level="warning")
    except KeyboardInterrupt:
        return 130
    finally:
        sessions.close()
    return 0


async def _serve_stdio(app: Any) -> None:
    stdio = sdk("mcp.server.stdio")
    async with stdio.stdio_server() as (read, write):
        await app.run(read, write, app.create_initialization_options())


def _appender(path: str) -> Callable[[Mapping[str, Any]], None]:
    lock = threading.Lock()
    Path(path).open("a").close()  # what cannot be written is an error at the start

    def append(result: Mapping[str, Any]) -> None:
        with lock, Path(path).open("a", encoding="utf-8") as file:
            file.write(json.dumps(result) + "\n")

    return append


def _object(properties: Mapping[str, Any], required: Sequence[str]) -> dict[str, Any]:
    return {"type": "object", "properties": dict(properties), "required": list(required), "additionalProperties": False}


def _with_episode(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of a tool with the optional argument that names the episode."""
    parameters = schema.get("parameters") or {"type": "object"}
    properties = {**parameters.get("properties", {}), EPISODE: _EPISODE_SCHEMA}
    return {**schema, "parameters": {**parameters, "properties": properties}}


def _join(messages: Sequence[Any]) -> str:
    return "\n\n".join(filter(None, map(text, messages)))


if __name__ == "__main__":
    sys.exit(main())
