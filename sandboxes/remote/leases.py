"""The sessions of a server by id. A session whose client has not asked for it for `lease_s` seconds is closed."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from sandboxes.provider import Session
from sandboxes.types import SandboxBusy, SandboxError


class UnknownSession(SandboxError):
    """There is no session of that id, or its lease is over."""


@dataclass(slots=True)
class _Lease:
    session: Session
    end: float  # a time of `time.monotonic`
    users: int = 0  # calls that run in it


class Leases:
    """Sessions by id, each with a lease: the time until it is closed unless its client asks for it again.

    A call keeps the lease as long as it runs, and renews it at its end.
    """

    def __init__(self, lease_s: float, max_sessions: int) -> None:
        self.lease_s, self.max_sessions = lease_s, max_sessions
        self._lock = threading.Lock()
        self._leases: dict[str, _Lease] = {}
        self._opening = 0
        self._closed = threading.Event()
        threading.Thread(target=self._close_expired, name="leases", daemon=True).start()

    @contextmanager
    def reserve(self) -> Iterator[None]:
        """Count one more session while the block opens it and adds it.

        Raises SandboxBusy where `max_sessions` are open or being opened.
        """
        with self._lock:
            if len(self._leases) + self._opening >= self.max_sessions:
                raise SandboxBusy(f"all of {self.max_sessions} sessions are taken")
            self._opening += 1
        try:
            yield
        finally:
            with self._lock:
                self._opening -= 1

    def add(self, session: Session) -> str:
        """Store a session and return its id, which cannot be guessed."""
        id = secrets.token_hex(16)
        with self._lock:
            self._leases[id] = _Lease(session, time.monotonic() + self.lease_s)
        return id

    @contextmanager
    def use(self, id: str) -> Iterator[Session]:
        """Give the block the session of that id, which does not expire inside it.

        Raises UnknownSession where its lease was over or it was closed.
        """
        with self._lock:
            lease = self._leases.get(id)
            if lease is None:
                raise UnknownSession(f"there is no session {id!r:.40}: its lease was over, or it was closed")
            lease.users += 1
        try:
            yield lease.session
        finally:
            with self._lock:
                lease.users -= 1
                lease.end = time.monotonic() + self.lease_s

    def renew(self, ids: list[str]) -> list[str]:
        """Let the sessions of these ids live for `lease_s` more seconds; return the ids of those that are closed."""
        with self._lock:
            for id in ids:
                if lease := self._leases.get(id):
                    lease.end = time.monotonic() + self.lease_s
            return [id for id in ids if id not in self._leases]

    def end(self, id: str) -> None:
        """Close a session, if it exists, without waiting for a call that runs in it."""
        with self._lock:
            lease = self._leases.pop(id, None)
        if lease is None:
            return
        if lease.users:
            threading.Thread(target=_close, args=(lease.session,), daemon=True).start()
        else:
            _close(lease.session)

    def close(self) -> None:
        """Stop closing expired sessions; the sandbox closes all of them."""
        self._closed.set()

    def _close_expired(self) -> None:
        while not self._closed.wait(min(1.0, self.lease_s / 4)):
            now = time.monotonic()
            with self._lock:
                ids = [id for id, lease in self._leases.items() if not lease.users and lease.end < now]
                leases = [self._leases.pop(id) for id in ids]
            for lease in leases:  # in a thread each, as a slow one must not delay the others
                threading.Thread(target=_close, args=(lease.session,), daemon=True).start()


def _close(session: Session) -> None:
    with suppress(Exception):  # no client waits for it any more
        session.close()
