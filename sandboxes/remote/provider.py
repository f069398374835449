"""The sandbox `remote`: the sandbox of another machine, over HTTP. `python -m sandboxes serve` is the server."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress

from sandboxes.remote import codec
from sandboxes.remote.client import Client
from sandboxes.remote.session import RemoteSession
from sandboxes.request import check_timeout, check_wait
from sandboxes.types import (
    Content,
    Isolation,
    Limits,
    Program,
    Result,
    SandboxClosed,
    SandboxDied,
    SandboxError,
    SandboxUnavailable,
)

URL, TOKEN = "TURNWISE_SANDBOX_URL", "TURNWISE_SANDBOX_TOKEN"


class Remote:
    """See `sandboxes.Sandbox`. Raises SandboxUnavailable where no server responds or it requires another token."""

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
        """Connect to a server.

        Args:
            tier: Refuse a server whose sandbox has another tier; "" accepts any.
            url: Address of the server; None is that of the variable TURNWISE_SANDBOX_URL.
            token: The server's token; None is that of the variable TURNWISE_SANDBOX_TOKEN.
            queue_s: Seconds that a call may wait for a place on the server.
            reach_s: Seconds in which a connection must be made.
            margin_s: Seconds that a response may come later than its call's own deadline.
        """
        for name, value in (("url", url), ("token", token)):
            if not isinstance(value, str | None):
                raise ValueError(f"remote: {name} = {value!r:.40}: must be a str or None")
        for name, seconds in (("queue_s", queue_s), ("reach_s", reach_s), ("margin_s", margin_s)):
            check_wait(name, seconds)
        url, token = url or os.environ.get(URL), (token or os.environ.get(TOKEN) or "").strip()
        if not url:
            raise SandboxUnavailable(f"remote: no server is named; pass url= or set {URL}")
        if token and not (token.isascii() and token.isprintable()):
            raise ValueError("remote: the token must be printable ASCII, without line breaks")
        self._client = Client(url, token, queue_s=queue_s, reach_s=reach_s, margin_s=margin_s)
        self._reset()
        try:
            description = self._client.describe_server()
            self._isolation = codec.unpack_isolation(description["shelter"])
            self._renew_interval_s = description["lease_s"] / 3
        except (KeyError, TypeError) as error:
            raise SandboxUnavailable(f"remote: {self._client.url} is no sandbox server: {error!r}") from None
        except SandboxError as error:
            raise SandboxUnavailable(f"remote: {error}") from None
        if tier and tier != self._isolation.tier:
            raise SandboxUnavailable(f"remote: {url} has tier '{self._isolation.tier}', not '{tier}'")
        self._start_renewing()

    def _reset(self) -> None:
        self._pid, self._lock = os.getpid(), threading.Lock()
        self._sessions: weakref.WeakSet[RemoteSession] = weakref.WeakSet()
        self._closed = threading.Event()

    def _start_renewing(self) -> None:
        arguments = (weakref.ref(self), self._closed, self._renew_interval_s)
        threading.Thread(target=_renew_leases, args=arguments, name="sandbox leases", daemon=True).start()
        weakref.finalize(self, self._closed.set)

    @property
    def isolation(self) -> Isolation:
        """What programs are kept from by the server's sandbox."""
        return self._isolation

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
        """Run one program on its own and return its result; see `Sandbox.run`."""
        self._check_open()
        body = {
            "program": program if isinstance(program, str) else list(program),
            "stdin": codec.pack(stdin),
            "files": codec.pack_files(files or {}),
            "fetch": list(fetch),
            "env": dict(env or {}),
            "timeout_s": check_timeout(timeout_s),
            "limits": codec.pack_limits(limits),
        }
        return codec.unpack_result(self._client.post("run", body, timeout_s)["result"])

    def session(self, *, limits: Limits | None = None) -> RemoteSession:
        """Open a session: an interpreter and files that last; see `Sandbox.session`."""
        self._check_open()
        return self._add_session(self._client.post("sessions", {"limits": codec.pack_limits(limits)})["session"])

    def _add_session(self, id: str, replay_s: float = 0.0) -> RemoteSession:
        """The session that the server has opened under `id`, whose lease is renewed from now on."""
        session = RemoteSession(self._client, id, self._add_session, replay_s)
        with self._lock:
            self._sessions.add(session)
        return session

    def close(self) -> None:
        """Close the connections; calls that still run on the server end at their deadlines. See `Sandbox.close`."""
        if self._pid != os.getpid() or self._closed.is_set():
            return
        self._closed.set()
        with suppress(SandboxError):  # a server that does not respond once is not asked for the other sessions
            for session in self._open_sessions():
                session.end()
        self._client.close()

    def __enter__(self) -> Remote:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def renew(self) -> None:
        """Tell the server that all open sessions are in use: it closes those that it does not hear of for some time.

        Sessions that it has closed already are marked so. A background thread calls this three times per lease.
        """
        sessions = {session.id: session for session in self._open_sessions() if session.alive}
        if sessions:
            with suppress(SandboxError, KeyError):
                response = self._client.post("heartbeat", {"sessions": list(sessions)}, unreachable=SandboxDied)
                for id in response["gone"]:
                    sessions[id].mark_expired()

    def _open_sessions(self) -> list[RemoteSession]:
        with self._lock:
            return list(self._sessions)

    def _check_open(self) -> None:
        if self._pid != os.getpid():  # a forked process: sessions and their leases belong to its parent
            was_closed = self._closed.is_set()
            self._reset()
            if not was_closed:
                self._start_renewing()
            else:
                self._closed.set()
        if self._closed.is_set():
            raise SandboxClosed(f"the sandbox at {self._client.url} is closed")


def _renew_leases(reference: weakref.ref[Remote], closed: threading.Event, interval_s: float) -> None:
    while not closed.wait(interval_s):
        if (remote := reference()) is None:
            return
        remote.renew()
        del remote
