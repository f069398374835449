"""Containers that are ready, by shape: taken, given back, looked after, and ended when they have served enough."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from sandboxes import recycling
from sandboxes.docker.container import Box
from sandboxes.docker.container_config import Shape
from sandboxes.types import SandboxClosed


class Pool:
    """At most `most` containers wait; those of shapes that were not asked for lately go first. Threads may share it."""

    def __init__(self, make: Callable[[Shape], Box], most: int) -> None:
        self._make, self._most = make, most
        self._lock = threading.Lock()
        self._idle: list[Box] = []  # who waits longest stands first
        self._all: set[Box] = set()
        self._closed = False

    def take(self, shape: Shape) -> Box:
        """One that waits and is well, or a new one."""
        while (box := self._waiting(shape)) is not None:
            if time.monotonic() - box.used < recycling.RESTED_S or box.is_well():
                return box
            self.give(box)
        self._check()
        box = self._make(shape)
        with self._lock:
            if not self._closed:
                self._all.add(box)
                return box
        box.close()
        self._check()
        return box

    def _check(self) -> None:
        if self._closed:
            raise SandboxClosed("the sandbox is closed")

    def _waiting(self, shape: Shape) -> Box | None:
        with self._lock:
            for place in range(len(self._idle) - 1, -1, -1):
                if self._idle[place].shape == shape:
                    return self._idle.pop(place)
        return None

    def give(self, box: Box) -> None:
        """Take one back; it is ended where it is not as it was, or has served enough."""
        with self._lock:
            too_many = []
            if box.is_good and not recycling.is_worn(box.calls) and not self._closed:
                self._idle.append(box)
                too_many, self._idle = self._idle[: -self._most], self._idle[-self._most :]
            else:
                too_many = [box]
            self._all.difference_update(too_many)
        for one in too_many:
            one.close()

    def kill(self) -> list[Box]:
        """End all, whoever uses them; they are what is returned."""
        with self._lock:
            self._closed = True
            known, self._all, self._idle = list(self._all), set(), []
        for box in known:
            box.kill()
        return known

    def forget(self) -> None:
        """In a forked process: leave all to the parent."""
        for box in self._all:
            box.close()
