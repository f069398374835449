"""The HTTP client of `remote`: keeps connections open, and sends requests so that none is executed twice."""

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
from urllib.parse import SplitResult, urlsplit

from sandboxes.remote import codec
from sandboxes.types import SandboxBusy, SandboxClosed, SandboxDied, SandboxError, SandboxUnavailable

_MAX_IDLE = 64
_MAX_TRIES = 4  # for a request whose connection breaks
_PAUSE_S, _MAX_PAUSE_S = 0.05, 1.0


class Client:
    """Sends requests to one server. Threads may share it; each request uses a connection of its own."""

    def __init__(self, url: str, token: str | None, *, queue_s: float, reach_s: float, margin_s: float) -> None:
        """Connects to nothing yet.

        Args:
            url: "http://HOST:PORT" or "https://HOST:PORT", perhaps with a path.
            token: What the server requires, if anything.
            queue_s: Seconds that a request is repeated while the server is busy.
            reach_s: Seconds in which a connection must be made.
            margin_s: Seconds that a response may come later than its request's own timeout.

        Raises:
            ValueError: The URL has another form, or contains a password.
        """
        parts = urlsplit(url)
        if not _is_address(parts) or not parts.hostname:
            raise ValueError(f"remote: url {_hide_password(url)!r}: must be http://HOST:PORT or https://HOST:PORT")
        if parts.username or parts.password:
            raise ValueError(f"remote: url {_hide_password(url)!r}: must hold no password; the token goes into `token`")
        self.url = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
        self.queue_s, self.reach_s, self.margin_s = queue_s, reach_s, margin_s
        self._host, self._port, self._path = parts.hostname, parts.port, parts.path.rstrip("/")
        self._connection_class = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._headers = {"Content-Type": "application/json", "User-Agent": "turnwise"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        self.server: str | None = None  # id of the server process that responded last
        self.max_body_bytes: int | None = None
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._idle: list[http.client.HTTPConnection] = []
        self._busy: set[http.client.HTTPConnection] = set()
        self._closed = False

    def describe_server(self) -> dict[str, Any]:
        """Ask for the server's description, `GET /v1/sandbox`, and return it; `Service.describe` lists its fields.

        Also notes the largest request that the server takes. Raises SandboxUnavailable where no server responds or it
        requires another token.
        """
        description = self._send("GET", "sandbox", b"", {}, self.margin_s, unreachable=SandboxUnavailable)
        self.max_body_bytes = description["body_bytes"]
        return description

    def post(
        self,
        path: str,
        body: Mapping[str, Any],
        timeout_s: float = 0.0,
        *,
        subject: str = "",
        unreachable: type[SandboxError] = SandboxUnavailable,
    ) -> dict[str, Any]:
        """Send a request by POST and return the response's JSON object. The server executes it at most once.

        Args:
            path: What follows "/v1/", such as "run".
            body: A JSON object.
            timeout_s: Seconds that the server may work on it.
            subject: The file that an OSError of the server is about.
            unreachable: Raised where no server can be reached; SandboxDied at once, as the session is lost anyway.

        Raises:
            ValueError: The body is too large for the server.
            SandboxDied: The server was reached and the response is lost.
            SandboxBusy: The server had no place for `queue_s` seconds.
            SandboxClosed: After `close`.
            Exception: What the server reports, such as ValueError for a wrong field; `codec.ERRORS` lists all.
        """
        content = json.dumps(body).encode()
        if self.max_body_bytes is not None and len(content) > self.max_body_bytes:
            raise ValueError(
                f"a request of {len(content) >> 20} MB: {self.url} takes {self.max_body_bytes >> 20} MB at most"
            )
        headers = {codec.REQUEST_HEADER: uuid.uuid4().hex}
        wait_s = timeout_s + codec.QUEUE_S + self.margin_s
        deadline, pause_s = time.monotonic() + self.queue_s, _PAUSE_S
        while True:
            try:
                return self._send("POST", path, content, headers, wait_s, unreachable=unreachable, subject=subject)
            except _Busy as busy:
                if time.monotonic() + pause_s > deadline:
                    raise SandboxBusy(f"{self.url} had no room within {self.queue_s:g} s: {busy}") from None
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _MAX_PAUSE_S)

    def _send(
        self,
        method: str,
        path: str,
        body: bytes,
        headers: Mapping[str, str],
        wait_s: float,
        *,
        unreachable: type[SandboxError],
        subject: str = "",
    ) -> dict[str, Any]:
        """Send a request until it is answered; after a broken connection only to the same server process."""
        deadline, may_be_executed, tries = time.monotonic() + self.reach_s, False, 0
        server = self.server
        while True:
            self._check_open()
            try:
                connection = self._acquire(wait_s)
            except OSError as error:
                if isinstance(error, ConnectionRefusedError) and (may_be_executed or unreachable is SandboxDied):
                    raise SandboxDied(f"{self.url} went away, and what it held with it") from None
                if time.monotonic() > deadline:
                    text = f"{self.url} cannot be reached: {error.strerror or error}"
                    raise (SandboxDied if may_be_executed else unreachable)(text) from None
                time.sleep(_PAUSE_S)
                continue
            all_headers = {**self._headers, **headers}
            if may_be_executed and server:
                all_headers[codec.SERVER_HEADER] = server
            try:
                status, message = self._exchange(connection, method, path, body, all_headers)
                break
            except TimeoutError:
                raise SandboxDied(f"{self.url} did not answer within {wait_s:g} s") from None
            except (OSError, http.client.HTTPException, ValueError) as error:
                self._check_open()
                may_be_executed, tries = True, tries + 1
                if tries == _MAX_TRIES:
                    raise SandboxDied(f"{self.url} broke off: {type(error).__name__}") from None
                time.sleep(tries * _PAUSE_S)
        if status != 200:
            raise self._exception(status, message, subject)
        return message

    def _exchange(
        self, connection: http.client.HTTPConnection, method: str, path: str, body: bytes, headers: dict[str, str]
    ) -> tuple[int, dict[str, Any]]:
        """One request on one connection. Raises OSError, HTTPException or ValueError where the connection broke."""
        is_complete = False
        try:
            with suppress(BrokenPipeError, ConnectionResetError):  # it may be refused before all of it was read
                connection.request(method, f"{self._path}/{codec.VERSION}/{path}", body or None, headers)
            response = connection.getresponse()
            message = json.loads(response.read())
            is_complete = not response.will_close
            self.server = response.getheader(codec.SERVER_HEADER) or self.server
        finally:
            with self._lock:
                self._busy.discard(connection)
                keep = is_complete and not self._closed and len(self._idle) < _MAX_IDLE
                if keep:
                    self._idle.append(connection)
            if not keep:
                connection.close()
        if not isinstance(message, dict):
            raise ValueError("no object")
        return response.status, message

    def _exception(self, status: int, message: dict[str, Any], subject: str) -> Exception:
        error = message.get("error")
        if not isinstance(error, dict):
            return SandboxError(f"{self.url} answered {status}, as no sandbox server does")
        kind, text = str(error.get("kind")), str(error.get("text"))
        if kind == "busy":
            return _Busy(text)
        if issubclass(codec.ERRORS.get(kind, (0, SandboxError))[1], SandboxError):
            text = f"{self.url}: {text}"
        return codec.unpack_error(kind, text, error.get("errno"), subject)

    def _acquire(self, wait_s: float) -> http.client.HTTPConnection:
        """An idle connection that is still open, or a new one. Raises OSError."""
        with self._lock:
            idle = self._idle
            while idle:
                connection = idle.pop()
                if _is_open(connection):
                    self._busy.add(connection)
                    connection.sock.settimeout(wait_s)
                    return connection
                connection.close()
        connection = self._connection_class(self._host, self._port, timeout=max(1.0, self.reach_s))
        connection.connect()
        connection.sock.settimeout(wait_s)
        with self._lock:
            self._busy.add(connection)
        return connection

    def _check_open(self) -> None:
        if self._pid != os.getpid():  # a forked process: the connections belong to its parent
            self._pid, self._lock, self._idle, self._busy = os.getpid(), threading.Lock(), [], set()
        if self._closed:
            raise SandboxClosed(f"the sandbox at {self.url} is closed")

    def close(self) -> None:
        """Close all connections; threads that wait for a response get SandboxClosed."""
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
    """The server has no place now; nothing was executed."""


def _is_open(connection: http.client.HTTPConnection) -> bool:
    """Whether the other end is open: it has sent nothing, not even that it closes."""
    if connection.sock is None:
        return False
    poll = select.poll()
    poll.register(connection.sock, select.POLLIN)
    return not poll.poll(0)


def _is_address(parts: SplitResult) -> bool:
    """Whether a URL is one of a server: http or https, with a port that is a number if there is one, and no query."""
    try:
        _ = parts.port
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and not (parts.query or parts.fragment)


def _hide_password(url: str) -> str:
    """The address without what may be a password."""
    scheme, _, rest = url.rpartition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}" if scheme else rest.rpartition("@")[2]
