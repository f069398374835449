"""Executes the requests of a server: programs and sessions of one sandbox, with limits on how many run at once."""

from __future__ import annotations

import json
import secrets
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from sandboxes.fair_queue import FairQueue
from sandboxes.provider import Sandbox, Session
from sandboxes.remote import codec, fusion
from sandboxes.remote.codec import RequestBody
from sandboxes.remote.leases import Leases, UnknownSession
from sandboxes.remote.response_cache import Response
from sandboxes.types import SandboxBusy

RETRY_S = 0.05  # when a refused client should retry: calls in the queue take milliseconds each
_TIMEOUT_S = 10.0
_PARAMETERS = frozenset({"self", "function", "timeout_s"})  # of `Session.call` itself


class Service:
    """Handles requests by path. Threads may share it."""

    def __init__(self, sandbox: Sandbox, *, places: int, queue: int, sessions: int, lease_s: float) -> None:
        """Serve a sandbox, which `close` closes.

        Args:
            sandbox: What runs the programs.
            places: How many programs run at once.
            queue: How many more may wait; others are refused.
            sessions: How many sessions may be open.
            lease_s: Seconds after which a session that no client has asked for is closed.
        """
        self.id = secrets.token_hex(8)  # of this process: another one does not have its sessions
        self.sandbox, self.places, self.queue = sandbox, places, queue
        self.leases = Leases(lease_s, sessions)
        self._fair_queue = FairQueue(places, codec.QUEUE_S)
        self._lock = threading.Lock()
        self._active = 0  # programs that run or wait
        self._handlers: dict[str, Callable[[RequestBody], dict[str, Any]]] = {
            "run": self._run,
            "sessions": self._open_session,
            "heartbeat": self._heartbeat,
        }
        self._session_handlers: dict[str, Callable[[Session, RequestBody], dict[str, Any]]] = {
            "cell": _cell,
            "call": _call,
            "run": _run_in_session,
            "write": _write,
            "read": _read,
        }

    def describe(self, max_body_bytes: int) -> dict[str, Any]:
        """Return the response to `GET /v1/sandbox`: what a client must know before it sends requests.

        "server" is this process's id, "shelter" the fields of the sandbox's `Isolation`, "lease_s" the seconds until
        unused sessions end, "places" how many programs run at once, "queue" how many more wait, "queue_s" for how many
        seconds, and "body_bytes" (`max_body_bytes`) the size of the largest request.
        """
        return {
            "server": self.id,
            "shelter": asdict(self.sandbox.isolation),
            "lease_s": self.leases.lease_s,
            "places": self.places,
            "queue": self.queue,
            "queue_s": codec.QUEUE_S,
            "body_bytes": max_body_bytes,
        }

    def has_path(self, path: str) -> bool:
        """Whether POST requests to that path, such as "/v1/run", are handled; a session in it need not exist."""
        parts = path.strip("/").split("/")
        if path == fusion.PATH:
            return True
        if parts[0] != codec.VERSION or len(parts) not in (2, 4):
            return False
        if len(parts) == 2:
            return parts[1] in self._handlers
        return parts[1] == "sessions" and parts[3] in (*self._session_handlers, "fork", "close")

    def handle(self, path: str, message: object) -> Response:
        """Execute a request to a path that `has_path`; `message` is its parsed JSON body.

        Never raises: an exception becomes an error response.
        """
        try:
            return _json_response(200, self._handle(path, RequestBody(message)))
        except UnknownSession as error:
            return error_response("gone", str(error))
        except SandboxBusy as error:
            return error_response("busy", str(error), retry_s=RETRY_S)
        except Exception as error:
            kind = codec.error_kind(error)
            if kind is None:  # a bug of the server: only its operator sees the details
                print(f"{path}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
                return error_response("fault", f"an internal fault of the server: {type(error).__name__}", status=500)
            return error_response(kind, **codec.pack_error(error))

    def close(self) -> None:
        """Close the sandbox, and so end everything that runs."""
        self.leases.close()
        self.sandbox.close()

    def _handle(self, path: str, body: RequestBody) -> dict[str, Any]:
        if path == fusion.PATH:
            with self._place():
                return fusion.run_code(self.sandbox, body)
        parts = path.strip("/").split("/")
        if len(parts) == 2:
            return self._handlers[parts[1]](body)
        if parts[3] == "close":
            body.end()
            self.leases.end(parts[2])
            return {}
        with self.leases.use(parts[2]) as session:
            if parts[3] == "fork":
                body.end()
                with self.leases.reserve():
                    return {"session": self.leases.add(session.fork())}
            return self._session_handlers[parts[3]](session, body) | {"alive": session.alive}

    @contextmanager
    def _place(self) -> Iterator[None]:
        """Wait for a place and occupy it. Raises SandboxBusy where too many wait already, or it takes too long."""
        with self._lock:
            if self._active >= self.places + self.queue:
                raise SandboxBusy(f"{self.places} programs run and {self.queue} wait")
            self._active += 1
        try:
            with self._fair_queue:
                yield
        finally:
            with self._lock:
                self._active -= 1

    def _run(self, body: RequestBody) -> dict[str, Any]:
        program = body.program()
        kwargs: dict[str, Any] = {
            "stdin": body.content("stdin"),
            "files": body.files("files"),
            "fetch": body.texts("fetch"),
            "env": body.texts_by_name("env"),
            "timeout_s": body.seconds("timeout_s", _TIMEOUT_S),
            "limits": body.limits(),
        }
        body.end()
        with self._place():
            return {"result": codec.pack_result(self.sandbox.run(program, **kwargs))}

    def _open_session(self, body: RequestBody) -> dict[str, Any]:
        limits = body.limits()
        body.end()
        with self.leases.reserve():
            return {"session": self.leases.add(self.sandbox.session(limits=limits))}

    def _heartbeat(self, body: RequestBody) -> dict[str, Any]:
        ids = body.texts("sessions")
        body.end()
        return {"gone": self.leases.renew(ids)}


def _cell(session: Session, body: RequestBody) -> dict[str, Any]:
    source, timeout_s = body.text("source"), body.seconds("timeout_s", _TIMEOUT_S)
    body.end()
    return {"result": codec.pack_result(session.cell(source, timeout_s=timeout_s))}


def _call(session: Session, body: RequestBody) -> dict[str, Any]:
    function, timeout_s = body.text("function"), body.seconds("timeout_s", _TIMEOUT_S)
    arguments, keywords = body.value("arguments", list), body.value("keywords", dict)
    body.end()
    if not all(type(name) is str for name in keywords) or _PARAMETERS & set(keywords):
        raise ValueError(f"keywords: must be named by texts, and none of them {', '.join(sorted(_PARAMETERS))}")
    return {"result": codec.pack_result(session.call(function, *arguments, timeout_s=timeout_s, **keywords))}


def _run_in_session(session: Session, body: RequestBody) -> dict[str, Any]:
    program, stdin, timeout_s = body.program(), body.content("stdin"), body.seconds("timeout_s", _TIMEOUT_S)
    body.end()
    return {"result": codec.pack_result(session.run(program, stdin=stdin, timeout_s=timeout_s))}


def _write(session: Session, body: RequestBody) -> dict[str, Any]:
    path, content = body.text("path"), body.content("content")
    body.end()
    session.write(path, content)
    return {}


def _read(session: Session, body: RequestBody) -> dict[str, Any]:
    path, max_bytes = body.text("path"), body.count("max_bytes", 1 << 20)
    body.end()
    return {"content": codec.pack(session.read(path, max_bytes))}


def error_response(
    kind: str, text: str, *, status: int = 0, errno: object = None, retry_s: float | None = None
) -> Response:
    """Build the response for an error that says `text`.

    `kind` is a key of `codec.ERRORS`, which gives the HTTP status unless `status` is not 0. `errno` is the number of an
    OSError, else None. `retry_s` says that nothing was executed, and after how many seconds to retry; None: do not.
    """
    error: dict[str, Any] = {"kind": kind, "text": text, "errno": errno, "retry_s": retry_s}
    response = _json_response(status or codec.ERRORS[kind][0], {"error": error})
    return response._replace(was_executed=retry_s is None, retry=retry_s is not None)


def _json_response(status: int, message: dict[str, Any]) -> Response:
    return Response(status, json.dumps(message).encode())
