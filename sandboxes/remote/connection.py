"""The client's way to its server: connections that are kept, and requests that are never done twice."""

from __future__ import annotations

import http.client
import json
import os
import select
import socket
import threading
import time
import uuid
from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from sandboxes.remote import codec
from sandboxes.types import SandboxBusy, SandboxClosed, SandboxDied, SandboxError, SandboxUnavailable

_MOST_IDLE = 64
_TRIES = 4  # for a request whose connection breaks
_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 1.0


class Line:
    """Asks one server. Threads may share it; each request has a connection of its own while it lasts."""

    def __init__(self, url: str, token: str | None, *, queue_s: float, reach_s: float, margin_s: float) -> None:
        """`reach_s` is how long it tries to connect; `margin_s` how long an answer may be later than its call."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise ValueError(f"remote: url {_shown(url)!r}: must be http://HOST:PORT or https://HOST:PORT")
        if parts.username or parts.password:
            raise ValueError(f"remote: url {_shown(url)!r}: must hold no password; the token goes into `token`")
        self.url = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
        self.queue_s, self.reach_s, self.margin_s = queue_s, reach_s, margin_s
        self._host, self._port, self._path = parts.hostname, parts.port, parts.path.rstrip("/")
        self._kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._headers = {"Content-Type": "application/json", "User-Agent": "turnwise"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        self.server: str | None = None  # the name of the life that answered last
        self.body_bytes: int | None = None
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._idle: list[http.client.HTTPConnection] = []
        self._busy: set[http.client.HTTPConnection] = set()
        self._closed = False

    def about(self) -> dict[str, Any]:
        """What the server says of itself. Raises SandboxUnavailable where there is none, or it wants another token."""
        said = self._ask("GET", "sandbox", b"", {}, self.margin_s, gone=SandboxUnavailable)
        self.body_bytes = said["body_bytes"]
        return said

    def ask(
        self,
        path: str,
        said: Mapping[str, Any],
        timeout_s: float = 0.0,
        *,
        subject: str = "",
        gone: type[SandboxError] = SandboxUnavailable,
    ) -> dict[str, Any]:
        """The answer to a request whose work takes up to `timeout_s`. Raises what the server tells.

        `gone` is raised where no server is reached, at once for SandboxDied, as nobody holds the session any more;
        SandboxDied where one was reached and the answer is lost; SandboxBusy where it has had no room for `queue_s`.
        `subject` is the path that an OSError is about.
        """
        body = json.dumps(said).encode()
        if self.body_bytes is not None and len(body) > self.body_bytes:
            raise ValueError(f"a request of {len(body) >> 20} MB: {self.url} takes {self.body_bytes >> 20} MB at most")
        headers = {codec.REQUEST: uuid.uuid4().hex}
        until, pause_s = time.monotonic() + self.queue_s, _PAUSE_S
        while True:
            try:
                return self._ask(
                    "POST", path, body, headers, timeout_s + codec.QUEUE_S + self.margin_s, gone=gone, subject=subject
                )
            except _Busy as busy:
                if time.monotonic() + pause_s > until:
                    raise SandboxBusy(f"{self.url} had no room within {self.queue_s:g} s: {busy}") from None
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def _ask(
        self,
        method: str,
        path: str,
        body: bytes,
        headers: Mapping[str, str],
        wait_s: float,
        *,
        gone: type[SandboxError],
        subject: str = "",
    ) -> dict[str, Any]:
        """One request, until it is answered; sent again where its connection broke, to the same server only."""
        until, may_be_done, tries = time.monotonic() + self.reach_s, False, 0
        server = self.server
        while True:
            self._check()
            try:
                connection = self._take(wait_s)
            except OSError as fault:
                if isinstance(fault, ConnectionRefusedError) and (may_be_done or gone is SandboxDied):
                    raise SandboxDied(f"{self.url} went away, and what it held with it") from None
                if time.monotonic() > until:
                    text = f"{self.url} cannot be reached: {fault.strerror or fault}"
                    raise (SandboxDied if may_be_done else gone)(text) from None
                time.sleep(_PAUSE_S)
                continue
            sent = {**self._headers, **headers}
            if may_be_done and server:
                sent[codec.SERVER] = server
            try:
                status, said = self._exchange(connection, method, path, body, sent)
                break
            except TimeoutError:
                raise SandboxDied(f"{self.url} did not answer within {wait_s:g} s") from None
            except (OSError, http.client.HTTPException, ValueError) as fault:
                self._check()
                may_be_done, tries = True, tries + 1
                if tries == _TRIES:
                    raise SandboxDied(f"{self.url} broke off: {type(fault).__name__}") from None
                time.sleep(tries * _PAUSE_S)
        if status != 200:
            raise self._fault(status, said, subject)
        return said

    def _exchange(
        self, connection: http.client.HTTPConnection, method: str, path: str, body: bytes, headers: dict[str, str]
    ) -> tuple[int, dict[str, Any]]:
        """One request on one connection. Raises OSError, HTTPException or ValueError where it broke."""
        is_whole = False
        try:
            with suppress(BrokenPipeError, ConnectionResetError):  # it may be refused before all of it was read
                connection.request(method, f"{self._path}/{codec.VERSION}/{path}", body or None, headers)
            answer = connection.getresponse()
            said = json.loads(answer.read())
            is_whole = not answer.will_close
            self.server = answer.getheader(codec.SERVER) or self.server
        finally:
            with self._lock:
                self._busy.discard(connection)
                is_kept = is_whole and not self._closed and len(self._idle) < _MOST_IDLE
                if is_kept:
                    self._idle.append(connection)
            if not is_kept:
                connection.close()
        if not isinstance(said, dict):
            raise ValueError("no object")
        return answer.status, said

    def _fault(self, status: int, said: dict[str, Any], subject: str) -> Exception:
        told = said.get("error")
        if not isinstance(told, dict):
            return SandboxError(f"{self.url} answered {status}, as no sandbox server does")
        kind, text = str(told.get("kind")), str(told.get("text"))
        if kind == "busy":
            return _Busy(text)
        about_us = codec.ANSWERS.get(kind, (0, SandboxError))[1]
        if issubclass(about_us, SandboxError):
            text = f"{self.url}: {text}"
        return codec.fault(kind, text, told.get("errno"), subject)

    def _take(self, wait_s: float) -> http.client.HTTPConnection:
        """A connection that is open, a new one if need be. Raises OSError."""
        with self._lock:
            idle = self._idle
            while idle:
                connection = idle.pop()
                if _is_silent(connection):
                    self._busy.add(connection)
                    connection.sock.settimeout(wait_s)
                    return connection
                connection.close()
        connection = self._kind(self._host, self._port, timeout=max(1.0, self.reach_s))
        connection.connect()
        connection.sock.settimeout(wait_s)
        with self._lock:
            self._busy.add(connection)
        return connection

    def _check(self) -> None:
        if self._pid != os.getpid():  # a forked child: the connections are its parent's
            self._pid, self._lock, self._idle, self._busy = os.getpid(), threading.Lock(), [], set()
        if self._closed:
            raise SandboxClosed(f"the sandbox at {self.url} is closed")

    def close(self) -> None:
        """Close all connections; whoever waits for an answer is told so."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
            busy = list(self._busy)
        for connection in idle:
            connection.close()
        for connection in busy:
            with suppress(OSError, AttributeError):
                connection.sock.shutdown(socket.SHUT_RDWR)


class _Busy(Exception):
    """There is no room now; nothing was done."""


def _is_silent(connection: http.client.HTTPConnection) -> bool:
    """Whether the other end still listens and has said nothing: not even that it went."""
    if connection.sock is None:
        return False
    poll = select.poll()
    poll.register(connection.sock, select.POLLIN)
    return not poll.poll(0)


def _shown(url: str) -> str:
    """An address without what may be a password."""
    scheme, _, rest = url.rpartition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}" if scheme else rest.rpartition("@")[2]
