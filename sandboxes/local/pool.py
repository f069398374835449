"""A pool of places that are ready to use.

A place is a process tree that runs one program at a time. All are forked from one zygote, a process that is kept ready
for that, and replaced when it has died.
"""

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
    """Hands out places, process trees that run one program at a time, and takes them back. Threads may share it.

    The constructor starts a zygote, the process that places are forked from, and raises SandboxUnavailable where the
    tier does not work on this machine.
    """

    def __init__(self, tier: str, packages: Sequence[str], preload: Sequence[str], start_s: float) -> None:
        """`tier` is "namespaces", "landlock" or "process". `start_s`: seconds in which it must have started.

        Programs can import the packages named in `packages`; those of `preload` are loaded already.
        """
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
        """Process id of the launcher, the process that starts the zygote and ends it when the host has ended."""
        return self._zygote.pid

    def acquire(self) -> Place:
        """Take an idle place (a process tree that runs programs) that is healthy, or open a new one.

        The caller must `release` it. Raises what `open` does.
        """
        while (place := self._pop_idle()) is not None:
            if time.monotonic() - place.last_used < recycling.RECHECK_AFTER_S or place.is_healthy():
                return place
            self.release(place)
        return self.open()

    def _pop_idle(self) -> Place | None:
        with self._lock:
            return self._idle.pop() if self._idle else None

    def release(self, place: Place) -> None:
        """Take back a place of `acquire`; it is ended if it must not be reused or has served enough calls."""
        if place.is_reusable and not recycling.is_used_up(place.calls) and not self._closed:
            with self._lock:
                self._idle.append(place)
        else:
            place.kill()
            place.close()

    def open(self) -> Place:
        """Fork a new place (a warden process, in which programs run) from the zygote, the process kept ready for that.

        A dead zygote is replaced first. Raises SandboxDied if the pool is closed meanwhile or the new zygote fails too,
        SandboxUnavailable if no new one can be started, and SandboxBusy if all its places are in use.
        """
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
        """End the zygote, from which all places were forked, and so all processes of the pool. May be called again."""
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
