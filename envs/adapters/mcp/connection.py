"""A connection to an MCP server for synchronous code: a fresh one for each episode, with a deadline for every call."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import suppress
from typing import Any

from envs.adapters.loop_thread import LoopThread
from envs.adapters.mcp.sdk import sdk
from envs.adapters.named_function import load_function

MAX_PAGES = 100  # of a server's list of tools
INVALID_PARAMS, METHOD_NOT_FOUND = -32602, -32601  # codes of protocol errors that a wrong call causes


class CallRefused(Exception):
    """The server refuses a call as malformed. The text is the server's."""


def target_of(name: str) -> Callable[[], Any]:
    """Return a function that makes what `mcp.Client` connects to, for the words behind `mcp:`.

    A URL is a server over streamable HTTP. `module:function` or `path/to/file.py:function` returns a new server of this
    process (an `MCPServer`). Anything else is a command line that starts a server on its standard input and output.
    Raises ValueError for a command line that cannot be split, or a function that does not exist.
    """
    if name.startswith(("http://", "https://")):
        return lambda: name
    function = name.rpartition(":")[2]
    if ":" in name and function.isidentifier() and not any(map(str.isspace, name)):
        return load_function(name)
    try:
        command, *arguments = shlex.split(name)
    except ValueError as error:
        raise ValueError(f"the command {name!r} cannot be read: {error}") from None
    mcp = sdk("mcp")
    return lambda: mcp.StdioServerParameters(command=command, args=arguments)


class Connection:
    """A client and its server, in an event loop of their own.

    The client is entered and left in one task, as its cancel scopes demand. What fails raises ConnectionError: the
    server died, did not answer in time, or broke the protocol; the connection is closed then, because a call that timed
    out may still take effect.

    Args:
        make_target: Makes the server, its parameters or its URL (`target_of`).
        seconds: Limit of opening, of each call, and of closing.
    """

    def __init__(self, make_target: Callable[[], Any], seconds: float) -> None:
        self._make_target, self._seconds = make_target, seconds
        self._client_class = sdk("mcp").Client
        self._error_class = sdk("mcp.shared.exceptions").MCPError
        self._thread: LoopThread | None = None
        self._client: Any = None
        self._done: asyncio.Event | None = None
        self._life: Future[None] | None = None

    def open(self) -> list[Any]:
        """Start or reach the server and return its tools, sorted by name. Raises ConnectionError."""
        self.close()
        target = self._make_target()
        self._thread = LoopThread("mcp")
        ready: Future[list[Any]] = Future()
        self._life = self._thread.start(self._live(target, ready))
        try:
            return ready.result(self._seconds)
        except FutureTimeout:
            self.close()
            raise ConnectionError(f"the MCP server did not answer within {self._seconds:g} s") from None
        except Exception as error:
            self.close()
            raise ConnectionError(f"the MCP server cannot be opened: {_innermost(error)}") from error

    def call(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """Call a tool and return the server's result. Raises CallRefused, or ConnectionError."""
        if self._thread is None or self._life is None or self._life.done():
            raise ConnectionError("the MCP server is gone")
        try:
            return self._thread.run(self._client.call_tool, self._seconds, name, dict(arguments))
        except self._error_class as error:
            if error.code in (INVALID_PARAMS, METHOD_NOT_FOUND):
                raise CallRefused(error.message) from None
            fault = f"the MCP server failed in {name}: {error.message}"
        except TimeoutError:
            fault = f"the MCP server did not answer {name} within {self._seconds:g} s"
        except Exception as error:
            fault = f"the MCP server failed in {name}: {_innermost(error)}"
        self.close()
        raise ConnectionError(fault)

    def close(self) -> None:
        """Leave the server, which ends one that was started, and end the loop's thread."""
        thread, life, done = self._thread, self._life, self._done
        self._thread = self._life = self._done = self._client = None
        if thread is None:
            return
        if life is not None:
            if done is not None:
                thread.loop.call_soon_threadsafe(done.set)
            else:
                life.cancel()
            with suppress(Exception):  # how a server ends does not matter any more
                life.result(self._seconds)
        with suppress(TimeoutError):
            thread.close()

    async def _live(self, target: Any, ready: Future[list[Any]]) -> None:
        try:
            async with self._client_class(target) as client:
                tools = await _list_tools(client)
                self._client, self._done = client, asyncio.Event()
                ready.set_result(sorted(tools, key=lambda tool: tool.name))
                await self._done.wait()
        except BaseException as error:
            if not ready.done():
                ready.set_exception(error if isinstance(error, Exception) else ConnectionError(repr(error)))
            if isinstance(error, asyncio.CancelledError):
                raise


async def _list_tools(client: Any) -> list[Any]:
    tools: list[Any] = []
    cursor = None
    for _ in range(MAX_PAGES):
        page = await (client.list_tools(cursor=cursor) if cursor else client.list_tools())
        tools += page.tools
        if not (cursor := page.next_cursor):
            break
    return tools


def _innermost(error: BaseException) -> str:
    """The first cause in groups of exceptions, in one line."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:500]
