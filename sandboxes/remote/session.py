"""A session of `remote`: the id of a session on the server."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from sandboxes import json_values
from sandboxes.remote import codec
from sandboxes.remote.client import Client
from sandboxes.request import check_timeout
from sandboxes.types import Content, Program, Result, SandboxClosed, SandboxDied, SandboxError

_FILE_TIMEOUT_S = 10.0  # for writing or reading one file


class RemoteSession:
    """See `sandboxes.Session`. Threads may share it; their calls run one after the other."""

    def __init__(
        self, client: Client, id: str, open_session: Callable[[str, float], RemoteSession], replay_s: float = 0.0
    ) -> None:
        """`id` is that of a session on the server of `client`.

        `open_session(id, replay_s)` makes the object for another id. `replay_s` is how many seconds all calls so far
        may have taken, and so how long a fork, which makes them again, may take.
        """
        self.id, self._client, self._open_session, self._replay_s = id, client, open_session, replay_s
        self._lock = threading.RLock()
        self._alive, self._closed = True, False
        self._loss = ""  # why the server does not have the session any more

    @property
    def alive(self) -> bool:
        """Whether another call would run, as far as the server has reported."""
        return self._alive and not self._closed

    def cell(self, source: str, *, timeout_s: float = 10.0) -> Result:
        """Run Python `source` in the session's interpreter, whose names last; see `Session.cell`."""
        return self._call("cell", {"source": source}, timeout_s)

    def call(self, function: str, *arguments: object, timeout_s: float = 10.0, **keywords: object) -> Result:
        """Call a function that an earlier cell defined, with plain data; see `Session.call`."""
        body = {
            "function": function,
            "arguments": json_values.dump(list(arguments)),
            "keywords": json_values.dump(keywords),
        }
        return self._call("call", body, timeout_s)

    def run(self, program: Program, *, stdin: Content = b"", timeout_s: float = 10.0) -> Result:
        """Run a program in the session's folder; see `Session.run`."""
        body = {"program": program if isinstance(program, str) else list(program), "stdin": codec.pack(stdin)}
        return self._call("run", body, timeout_s)

    def write(self, path: str, content: Content) -> None:
        """Write a file in the session's folder; see `Session.write`."""
        self._post("write", {"path": path, "content": codec.pack(content)}, _FILE_TIMEOUT_S, subject=path)

    def read(self, path: str, max_bytes: int = 1 << 20) -> bytes:
        """Read a file in the session's folder; see `Session.read`."""
        response = self._post("read", {"path": path, "max_bytes": max_bytes}, _FILE_TIMEOUT_S, subject=path)
        return codec.unpack(response["content"])

    def fork(self) -> RemoteSession:
        """Open a new session in the same state; see `Session.fork`."""
        return self._open_session(self._post("fork", {}, self._replay_s)["session"], self._replay_s)

    def close(self) -> None:
        """End the session; if the server cannot be reached, its lease ends it later. See `Session.close`."""
        with self._lock, suppress(SandboxError):
            self.end()

    def end(self) -> None:
        """Close the session without waiting for a call that runs in it. May be called again.

        Raises SandboxError where the server is not reached.
        """
        if self._closed:
            return
        self._closed = True
        if not self._loss:
            self._client.post(f"sessions/{self.id}/close", {}, unreachable=SandboxDied)

    def mark_expired(self) -> None:
        """Note that the server does not have the session any more: calls raise SandboxDied from now on."""
        self._alive, self._loss = False, self._loss or f"{self._client.url}: the session's lease was over"

    def __enter__(self) -> RemoteSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _call(self, method: str, body: dict[str, Any], timeout_s: float) -> Result:
        response = self._post(method, body | {"timeout_s": check_timeout(timeout_s)}, timeout_s)
        return codec.unpack_result(response["result"])

    def _post(self, method: str, body: dict[str, Any], timeout_s: float, *, subject: str = "") -> dict[str, Any]:
        with self._lock:
            if self._closed:
                raise SandboxClosed("the session is closed")
            if self._loss:
                raise SandboxDied(self._loss)
            self._replay_s += timeout_s
            try:
                path = f"sessions/{self.id}/{method}"
                response = self._client.post(path, body, timeout_s, subject=subject, unreachable=SandboxDied)
            except SandboxDied as error:
                self._alive, self._loss = False, str(error)
                raise
            self._alive = response.get("alive", self._alive)
            return response
