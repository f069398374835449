"""A session of `remote`: a name under which the server keeps one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from sandboxes import json_values
from sandboxes.remote import codec
from sandboxes.remote.connection import Line
from sandboxes.request import deadline
from sandboxes.types import Content, Program, Result, SandboxClosed, SandboxDied, SandboxError

_FILE_S = 10.0  # for a file's way into or out of a session


class RemoteSession:
    """See `sandboxes.types.Session`. Threads may share it; they wait for each other."""

    def __init__(
        self, line: Line, name: str, adopt: Callable[[str, float], RemoteSession], spent_s: float = 0.0
    ) -> None:
        """`adopt` makes the session of another name; `spent_s` is how long all that was done here may have taken."""
        self.name, self._line, self._adopt, self._spent_s = name, line, adopt, spent_s
        self._lock = threading.RLock()
        self._alive, self._closed = True, False
        self._lost = ""

    @property
    def alive(self) -> bool:
        """Whether another call would run, as far as the server has said."""
        return self._alive and not self._closed

    def cell(self, source: str, *, timeout_s: float = 10.0) -> Result:
        """See `Session.cell`."""
        return self._result("cell", {"source": source}, timeout_s)

    def call(self, function: str, *arguments: object, timeout_s: float = 10.0, **keywords: object) -> Result:
        """See `Session.call`."""
        said = {
            "function": function,
            "arguments": json_values.dump(list(arguments)),
            "keywords": json_values.dump(keywords),
        }
        return self._result("call", said, timeout_s)

    def run(self, program: Program, *, stdin: Content = b"", timeout_s: float = 10.0) -> Result:
        """See `Session.run`."""
        said = {"program": program if isinstance(program, str) else list(program), "stdin": codec.pack(stdin)}
        return self._result("run", said, timeout_s)

    def write(self, path: str, content: Content) -> None:
        """See `Session.write`."""
        self._ask("write", {"path": path, "content": codec.pack(content)}, _FILE_S, subject=path)

    def read(self, path: str, max_bytes: int = 1 << 20) -> bytes:
        """See `Session.read`."""
        said = self._ask("read", {"path": path, "max_bytes": max_bytes}, _FILE_S, subject=path)
        return codec.unpack(said["content"])

    def fork(self) -> RemoteSession:
        """See `Session.fork`."""
        return self._adopt(self._ask("fork", {}, self._spent_s)["session"], self._spent_s)

    def close(self) -> None:
        """See `Session.close`."""
        with self._lock, suppress(SandboxError):  # where the server is not reached, the lease ends it
            self.leave()

    def leave(self) -> None:
        """Close it without waiting for what runs in it. Raises SandboxError where the server is not reached."""
        if self._closed:
            return
        self._closed = True
        if not self._lost:
            self._line.ask(f"sessions/{self.name}/close", {}, gone=SandboxDied)

    def lose(self) -> None:
        """Take it that the server has it no more."""
        self._alive, self._lost = False, self._lost or f"{self._line.url}: the session's lease was over"

    def __enter__(self) -> RemoteSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _result(self, what: str, said: dict[str, Any], timeout_s: float) -> Result:
        said = self._ask(what, said | {"timeout_s": deadline(timeout_s)}, timeout_s)
        return codec.unpack_result(said["result"])

    def _ask(self, what: str, said: dict[str, Any], timeout_s: float, *, subject: str = "") -> dict[str, Any]:
        with self._lock:
            if self._closed:
                raise SandboxClosed("the session is closed")
            if self._lost:
                raise SandboxDied(self._lost)
            self._spent_s += timeout_s
            try:
                path = f"sessions/{self.name}/{what}"
                said = self._line.ask(path, said, timeout_s, subject=subject, gone=SandboxDied)
            except SandboxDied as fault:
                self._alive, self._lost = False, str(fault)
                raise
            self._alive = said.get("alive", self._alive)
            return said
