"""What the requests do: programs and sessions of one sandbox, no more of them at once than it has room for."""

from __future__ import annotations

import json
import secrets
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from sandboxes.fair_queue import Turns
from sandboxes.remote import codec, fusion
from sandboxes.remote.answer_cache import Answer
from sandboxes.remote.codec import Fields
from sandboxes.remote.leases import Leases, NoSession
from sandboxes.types import Sandbox, SandboxBusy, Session

RETRY_S = 0.05  # when to ask again: those in the queue take milliseconds each
_TIMEOUT_S = 10.0
_OWN = frozenset({"self", "function", "timeout_s"})  # names of the parameters of `Session.call` itself


class Service:
    """Answers requests by path. Threads share it."""

    def __init__(self, sandbox: Sandbox, *, places: int, queue: int, sessions: int, lease_s: float) -> None:
        """`places` programs run at once, `queue` more wait; further ones, and sessions beyond `sessions`, are refused.

        A session that nobody has asked for in `lease_s` seconds is closed.
        """
        self.name = secrets.token_hex(8)  # of this server's life: another one knows nothing of its sessions
        self.sandbox, self.places, self.queue = sandbox, places, queue
        self.leases = Leases(lease_s, sessions)
        self._turns = Turns(places, codec.QUEUE_S)
        self._lock = threading.Lock()
        self._inside = 0
        self._does: dict[str, Callable[[Fields], dict[str, Any]]] = {
            "run": self._run,
            "sessions": self._open,
            "heartbeat": self._heartbeat,
        }
        self._in_session: dict[str, Callable[[Session, Fields], dict[str, Any]]] = {
            "cell": _cell,
            "call": _call,
            "run": _run_beside,
            "write": _write,
            "read": _read,
        }

    def about(self, body_bytes: int) -> dict[str, Any]:
        """What a client must know before it asks."""
        said = {"server": self.name, "shelter": asdict(self.sandbox.shelter), "lease_s": self.leases.lease_s}
        return said | {"places": self.places, "queue": self.queue, "queue_s": codec.QUEUE_S, "body_bytes": body_bytes}

    def knows(self, path: str) -> bool:
        """Whether something is done at that path."""
        parts = path.strip("/").split("/")
        if path == fusion.PATH:
            return True
        if parts[0] != codec.VERSION or len(parts) not in (2, 4):
            return False
        if len(parts) == 2:
            return parts[1] in self._does
        return parts[1] == "sessions" and parts[3] in (*self._in_session, "fork", "close")

    def answer(self, path: str, body: object) -> Answer:
        """Do it, and tell what came of it; a fault is an answer too."""
        try:
            return _answer(200, self._do(path, Fields(body)))
        except NoSession as fault:
            return refusal("gone", str(fault))
        except SandboxBusy as fault:
            return refusal("busy", str(fault), retry_s=RETRY_S)
        except Exception as fault:
            kind = codec.kind_of(fault)
            if kind is None:  # a bug of ours; the place of its origin is for whoever runs the server
                print(f"{path}: {type(fault).__name__}: {fault}", file=sys.stderr, flush=True)
                return refusal("fault", f"an internal fault of the server: {type(fault).__name__}", status=500)
            return refusal(kind, **codec.told(fault))

    def close(self) -> None:
        """End everything that runs."""
        self.leases.close()
        self.sandbox.close()

    def _do(self, path: str, body: Fields) -> dict[str, Any]:
        if path == fusion.PATH:
            with self._place():
                return fusion.run_code(self.sandbox, body)
        parts = path.strip("/").split("/")
        if len(parts) == 2:
            return self._does[parts[1]](body)
        if parts[3] == "close":
            body.end()
            self.leases.end(parts[2])
            return {}
        with self.leases.use(parts[2]) as session:
            if parts[3] == "fork":
                body.end()
                with self.leases.room():
                    return {"session": self.leases.add(session.fork())}
            return self._in_session[parts[3]](session, body) | {"alive": session.alive}

    @contextmanager
    def _place(self) -> Iterator[None]:
        """One of the places. Raises SandboxBusy where too many wait already, or it takes too long."""
        with self._lock:
            if self._inside >= self.places + self.queue:
                raise SandboxBusy(f"{self.places} programs run and {self.queue} wait")
            self._inside += 1
        try:
            with self._turns:
                yield
        finally:
            with self._lock:
                self._inside -= 1

    def _run(self, body: Fields) -> dict[str, Any]:
        program = body.program()
        words: dict[str, Any] = {
            "stdin": body.content("stdin"),
            "files": body.files("files"),
            "fetch": body.texts("fetch"),
            "env": body.named("env"),
            "timeout_s": body.seconds("timeout_s", _TIMEOUT_S),
            "limits": body.limits(),
        }
        body.end()
        with self._place():
            return {"result": codec.pack_result(self.sandbox.run(program, **words))}

    def _open(self, body: Fields) -> dict[str, Any]:
        limits = body.limits()
        body.end()
        with self.leases.room():
            return {"session": self.leases.add(self.sandbox.session(limits=limits))}

    def _heartbeat(self, body: Fields) -> dict[str, Any]:
        names = body.texts("sessions")
        body.end()
        return {"gone": self.leases.renew(names)}


def _cell(session: Session, body: Fields) -> dict[str, Any]:
    source, timeout_s = body.text("source"), body.seconds("timeout_s", _TIMEOUT_S)
    body.end()
    return {"result": codec.pack_result(session.cell(source, timeout_s=timeout_s))}


def _call(session: Session, body: Fields) -> dict[str, Any]:
    function, timeout_s = body.text("function"), body.seconds("timeout_s", _TIMEOUT_S)
    arguments, keywords = body.value("arguments", list), body.value("keywords", dict)
    body.end()
    if not all(type(name) is str for name in keywords) or _OWN & set(keywords):
        raise ValueError(f"keywords: must be named by texts, and none of them {', '.join(sorted(_OWN))}")
    return {"result": codec.pack_result(session.call(function, *arguments, timeout_s=timeout_s, **keywords))}


def _run_beside(session: Session, body: Fields) -> dict[str, Any]:
    program, stdin, timeout_s = body.program(), body.content("stdin"), body.seconds("timeout_s", _TIMEOUT_S)
    body.end()
    return {"result": codec.pack_result(session.run(program, stdin=stdin, timeout_s=timeout_s))}


def _write(session: Session, body: Fields) -> dict[str, Any]:
    path, content = body.text("path"), body.content("content")
    body.end()
    session.write(path, content)
    return {}


def _read(session: Session, body: Fields) -> dict[str, Any]:
    path, max_bytes = body.text("path"), body.count("max_bytes", 1 << 20)
    body.end()
    return {"content": codec.pack(session.read(path, max_bytes))}


def refusal(kind: str, text: str, *, status: int = 0, errno: object = None, retry_s: float | None = None) -> Answer:
    """An answer that tells a fault; `retry_s` says that nothing was done, and when to ask again."""
    said: dict[str, Any] = {"kind": kind, "text": text, "errno": errno, "retry_s": retry_s}
    found = _answer(status or codec.ANSWERS[kind][0], {"error": said})
    return found._replace(done=retry_s is None, retry=retry_s is not None)


def _answer(status: int, said: dict[str, Any]) -> Answer:
    return Answer(status, json.dumps(said).encode())
