"""Places that are ready: one zygote, the wardens that wait, and a new zygote when the old one is gone."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Sequence

from sandboxes import recycling
from sandboxes.local.confinement.tiers import refused
from sandboxes.local.place import Place
from sandboxes.local.zygote_client import Nursery
from sandboxes.types import Limits, SandboxDied, SandboxError, SandboxUnavailable


class Stock:
    """Gives and takes back places whose candidates come from one kind of zygote. Threads may share it."""

    def __init__(self, tier: str, packages: Sequence[str], preload: Sequence[str], start_s: float) -> None:
        """`packages` can be imported by candidates; those of `preload` are loaded already."""
        self._words = (tier, packages, preload, start_s)
        self._lock = threading.Lock()
        self._idle: list[Place] = []
        self._closed = False
        self._start()

    def _start(self) -> None:
        """Start a zygote, and see one call through: some kernels forbid things only then."""
        tier, packages, preload, start_s = self._words
        self._nursery = Nursery(tier, packages, preload, start_s)
        self._finalizer = weakref.finalize(self, _end, self._nursery, self._idle, os.getpid())
        try:
            place = self._nursery.open()
            self._idle.append(place)
            work = {"program": "import encodings.idna", "files": {}, "env": {}}
            tried = place.run(work, b"", Limits(), start_s, fetch=(), once=True)
            if not tried.ok:
                raise SandboxError(tried.stderr.strip().rpartition("\n")[2] or str(tried.status))
        except SandboxError as fault:
            self._finalizer()
            raise SandboxUnavailable(refused(tier, str(fault))) from None

    @property
    def memory(self) -> str:
        """Who counts memory."""
        return self._nursery.memory

    @property
    def pid(self) -> int:
        """Of the launcher."""
        return self._nursery.pid

    def take(self) -> Place:
        """A place that waits and is well, or a new one."""
        while (place := self._waiting()) is not None:
            if time.monotonic() - place.used < recycling.RESTED_S or place.is_well():
                return place
            self.give(place)
        return self.open()

    def _waiting(self) -> Place | None:
        with self._lock:
            return self._idle.pop() if self._idle else None

    def give(self, place: Place) -> None:
        """Take a place back; one that is not as it was, or has served enough, is ended."""
        if place.is_good and not recycling.is_worn(place.calls) and not self._closed:
            with self._lock:
                self._idle.append(place)
        else:
            place.kill()
            place.close()

    def open(self) -> Place:
        """A new place, from a new zygote if need be."""
        nursery = self._nursery
        try:
            return nursery.open()
        except SandboxDied:
            with self._lock:
                if self._closed:
                    raise
                if self._nursery is nursery:  # nobody else has replaced it meanwhile
                    self._finalizer()
                    self._start()
            return self._nursery.open()

    def close(self) -> None:
        """End everything that came of it."""
        self._closed = True
        self._finalizer()

    def forget(self) -> None:
        """In a forked process: leave what belongs to the parent alone."""
        self._finalizer.detach()


def _end(nursery: Nursery, idle: list[Place], pid: int) -> None:
    if os.getpid() != pid:
        return
    for place in idle:
        place.close()
    idle.clear()
    nursery.close()
