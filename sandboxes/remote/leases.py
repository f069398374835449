"""Sessions that others use from afar: each is ended when nobody has asked for it for a while."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from sandboxes.types import SandboxBusy, SandboxError, Session


class NoSession(SandboxError):
    """It was never here, or its lease is over."""


@dataclass(slots=True)
class _Held:
    session: Session
    until: float
    users: int = 0


class Leases:
    """Sessions by name. A call renews the lease at its start and at its end, and keeps it while it lasts."""

    def __init__(self, lease_s: float, most: int) -> None:
        self.lease_s, self.most = lease_s, most
        self._lock = threading.Lock()
        self._held: dict[str, _Held] = {}
        self._coming = 0
        self._closed = threading.Event()
        threading.Thread(target=self._watch, name="leases", daemon=True).start()

    @contextmanager
    def room(self) -> Iterator[None]:
        """Room for one more, while it is being opened. Raises SandboxBusy."""
        with self._lock:
            if len(self._held) + self._coming >= self.most:
                raise SandboxBusy(f"all of {self.most} sessions are taken")
            self._coming += 1
        try:
            yield
        finally:
            with self._lock:
                self._coming -= 1

    def add(self, session: Session) -> str:
        """Hold a session; its name, which nobody can guess."""
        name = secrets.token_hex(16)
        with self._lock:
            self._held[name] = _Held(session, time.monotonic() + self.lease_s)
        return name

    @contextmanager
    def use(self, name: str) -> Iterator[Session]:
        """The session of that name. Raises NoSession."""
        with self._lock:
            held = self._held.get(name)
            if held is None:
                raise NoSession(f"there is no session {name!r:.40}: its lease was over, or it was closed")
            held.users += 1
        try:
            yield held.session
        finally:
            with self._lock:
                held.users -= 1
                held.until = time.monotonic() + self.lease_s

    def renew(self, names: list[str]) -> list[str]:
        """Renew leases; those of the names that are not here any more."""
        with self._lock:
            for name in names:
                if held := self._held.get(name):
                    held.until = time.monotonic() + self.lease_s
            return [name for name in names if name not in self._held]

    def end(self, name: str) -> None:
        """Close a session, if it is here; one that runs something, as soon as that has ended."""
        with self._lock:
            held = self._held.pop(name, None)
        if held is None:
            return
        if held.users:
            threading.Thread(target=_close, args=(held.session,), daemon=True).start()
        else:
            _close(held.session)

    def close(self) -> None:
        """Look after them no more; the sandbox closes them."""
        self._closed.set()

    def _watch(self) -> None:
        while not self._closed.wait(min(1.0, self.lease_s / 4)):
            now = time.monotonic()
            with self._lock:
                over = [name for name, held in self._held.items() if not held.users and held.until < now]
                ended = [self._held.pop(name) for name in over]
            for held in ended:  # each by itself: one that is slow must not hold up the others
                threading.Thread(target=_close, args=(held.session,), daemon=True).start()


def _close(session: Session) -> None:
    with suppress(Exception):  # nobody waits for it any more
        session.close()
