"""The sandbox `remote`: another machine's, over HTTP. `python -m sandboxes serve` is the server."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress

from sandboxes.remote import codec
from sandboxes.remote.connection import Line
from sandboxes.remote.session import RemoteSession
from sandboxes.request import deadline
from sandboxes.types import (
    Content,
    Limits,
    Program,
    Result,
    SandboxClosed,
    SandboxDied,
    SandboxError,
    SandboxUnavailable,
    Shelter,
)

URL, TOKEN = "TURNWISE_SANDBOX_URL", "TURNWISE_SANDBOX_TOKEN"


class Remote:
    """See `sandboxes.types.Sandbox`. Raises SandboxUnavailable where no server answers, or it wants another token."""

    def __init__(
        self,
        tier: str = "",
        *,
        url: str | None = None,
        token: str | None = None,
        queue_s: float = 60.0,
        reach_s: float = 5.0,
        margin_s: float = 15.0,
    ) -> None:
        """`url` and `token` are those of the variables TURNWISE_SANDBOX_URL and TURNWISE_SANDBOX_TOKEN by default.

        A call waits up to `queue_s` for room on the server, and `reach_s` for a connection; its answer may come
        `margin_s` after its own deadline. With a `tier` no server of another one is taken.
        """
        url, token = url or os.environ.get(URL), token or os.environ.get(TOKEN)
        if not url:
            raise SandboxUnavailable(f"remote: no server is named; pass url= or set {URL}")
        if token and not (token.isascii() and token.isprintable()):
            raise ValueError("remote: the token must be ASCII")
        self._line = Line(url, token, queue_s=queue_s, reach_s=reach_s, margin_s=margin_s)
        self._begin()
        try:
            said = self._line.about()
            self._shelter, self._every_s = codec.unpack_shelter(said["shelter"]), said["lease_s"] / 3
        except (KeyError, TypeError) as fault:
            raise SandboxUnavailable(f"remote: {self._line.url} is no sandbox server: {fault!r}") from None
        except SandboxError as fault:
            raise SandboxUnavailable(f"remote: {fault}") from None
        if tier and tier != self._shelter.tier:
            raise SandboxUnavailable(f"remote: {url} has tier '{self._shelter.tier}', not '{tier}'")
        self._start()

    def _begin(self) -> None:
        self._pid, self._lock = os.getpid(), threading.Lock()
        self._sessions: weakref.WeakSet[RemoteSession] = weakref.WeakSet()
        self._ended = threading.Event()

    def _start(self) -> None:
        words = (weakref.ref(self), self._ended, self._every_s)
        threading.Thread(target=_renew, args=words, name="sandbox leases", daemon=True).start()
        weakref.finalize(self, self._ended.set)

    @property
    def shelter(self) -> Shelter:
        """What the server's sandbox protects against."""
        return self._shelter

    def run(
        self,
        program: Program,
        *,
        stdin: Content = b"",
        files: Mapping[str, Content] | None = None,
        fetch: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        timeout_s: float = 10.0,
        limits: Limits | None = None,
    ) -> Result:
        """See `Sandbox.run`."""
        self._check()
        said = {
            "program": program if isinstance(program, str) else list(program),
            "stdin": codec.pack(stdin),
            "files": codec.pack_all(files or {}),
            "fetch": list(fetch),
            "env": dict(env or {}),
            "timeout_s": deadline(timeout_s),
            "limits": codec.pack_limits(limits),
        }
        return codec.unpack_result(self._line.ask("run", said, timeout_s)["result"])

    def session(self, *, limits: Limits | None = None) -> RemoteSession:
        """See `Sandbox.session`."""
        self._check()
        return self.adopt(self._line.ask("sessions", {"limits": codec.pack_limits(limits)})["session"])

    def adopt(self, name: str, spent_s: float = 0.0) -> RemoteSession:
        """The session that the server has opened under that name, its lease renewed from now on."""
        session = RemoteSession(self._line, name, self.adopt, spent_s)
        with self._lock:
            self._sessions.add(session)
        return session

    def close(self) -> None:
        """See `Sandbox.close`; what still runs on the server ends at its deadline."""
        if self._pid != os.getpid() or self._ended.is_set():
            return
        self._ended.set()
        with suppress(SandboxError):  # one that does not answer is not asked again for each session
            for session in self._held():
                session.leave()
        self._line.close()

    def __enter__(self) -> Remote:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def renew(self) -> None:
        """Renew the leases of all sessions that are still held."""
        sessions = {session.name: session for session in self._held() if session.alive}
        if sessions:
            with suppress(SandboxError, KeyError):
                for name in self._line.ask("heartbeat", {"sessions": list(sessions)}, gone=SandboxDied)["gone"]:
                    sessions[name].lose()

    def _held(self) -> list[RemoteSession]:
        with self._lock:
            return list(self._sessions)

    def _check(self) -> None:
        if self._pid != os.getpid():  # a forked child: sessions and their leases are its parent's
            closed = self._ended.is_set()
            self._begin()
            if not closed:
                self._start()
            else:
                self._ended.set()
        if self._ended.is_set():
            raise SandboxClosed(f"the sandbox at {self._line.url} is closed")


def _renew(remote: weakref.ref[Remote], ended: threading.Event, every_s: float) -> None:
    while not ended.wait(every_s):
        if (held := remote()) is None:
            return
        held.renew()
        del held
