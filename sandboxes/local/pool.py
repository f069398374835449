"""A pool of places that are ready to use, forked from one zygote, which is replaced when it has died."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Sequence

from sandboxes import recycling
from sandboxes.local.confinement.tiers import start_error
from sandboxes.local.place import Place
from sandboxes.local.zygote_client import ZygoteClient
from sandboxes.types import Limits, SandboxDied, SandboxError, SandboxUnavailable


class PlacePool:
    """Hands out places and takes them back. Threads may share it.

    The constructor starts a zygote and raises SandboxUnavailable where the tier does not work on this machine.
    """

    def __init__(self, tier: str, packages: Sequence[str], preload: Sequence[str], start_s: float) -> None:
        """Candidates can import `packages`; those of `preload` are loaded already. `start_s`: seconds to start in."""
        self._config = (tier, packages, preload, start_s)
        self._lock = threading.Lock()
        self._idle: list[Place] = []
        self._closed = False
        self._start()

    def _start(self) -> None:
        """Start a zygote and make one test call, as some kernels refuse things only then."""
        tier, packages, preload, start_s = self._config
        self._zygote = ZygoteClient(tier, packages, preload, start_s)
        self._finalizer = weakref.finalize(self, _end, self._zygote, self._idle, os.getpid())
        try:
            place = self._zygote.open()
            self._idle.append(place)
            work = {"program": "import encodings.idna", "files": {}, "env": {}}
            result = place.run(work, b"", Limits(), start_s, fetch=(), once=True)
            if not result.ok:
                raise SandboxError(result.stderr.strip().rpartition("\n")[2] or str(result.status))
        except SandboxError as fault:
            self._finalizer()
            raise SandboxUnavailable(start_error(tier, str(fault))) from None

    @property
    def memory(self) -> str:
        """Who measures memory; see `Isolation.memory`."""
        return self._zygote.memory

    @property
    def pid(self) -> int:
        """Process id of the launcher."""
        return self._zygote.pid

    def acquire(self) -> Place:
        """An idle place that is healthy, or a new one."""
        while (place := self._pop_idle()) is not None:
            if time.monotonic() - place.last_used < recycling.RECHECK_AFTER_S or place.is_healthy():
                return place
            self.release(place)
        return self.open()

    def _pop_idle(self) -> Place | None:
        with self._lock:
            return self._idle.pop() if self._idle else None

    def release(self, place: Place) -> None:
        """Take a place back; it is ended if it must not be reused or has served enough calls."""
        if place.is_reusable and not recycling.is_used_up(place.calls) and not self._closed:
            with self._lock:
                self._idle.append(place)
        else:
            place.kill()
            place.close()

    def open(self) -> Place:
        """A new place, from a new zygote if the old one has died."""
        zygote = self._zygote
        try:
            return zygote.open()
        except SandboxDied:
            with self._lock:
                if self._closed:
                    raise
                if self._zygote is zygote:  # no other thread has replaced it meanwhile
                    self._finalizer()
                    self._start()
            return self._zygote.open()

    def close(self) -> None:
        """End all processes of the pool."""
        self._closed = True
        self._finalizer()

    def detach(self) -> None:
        """In a forked process: leave the pool's processes to the parent."""
        self._finalizer.detach()


def _end(zygote: ZygoteClient, idle: list[Place], pid: int) -> None:
    if os.getpid() != pid:
        return
    for place in idle:
        place.close()
    idle.clear()
    zygote.close()
