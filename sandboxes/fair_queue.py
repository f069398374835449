"""Limits how many threads are inside a block at once; the others wait in the order in which they came."""

from __future__ import annotations

import threading
from collections import deque

from sandboxes.types import SandboxBusy


class FairQueue:
    """Context manager that at most `places` threads are inside of; the next ones wait up to `queue_s` seconds each.

    Entering raises SandboxBusy when no place became free in time.
    """

    def __init__(self, places: int, queue_s: float) -> None:
        self.places, self.queue_s = places, queue_s
        self._lock = threading.Lock()
        self._waiting: deque[threading.Event] = deque()
        self._active = 0

    def __enter__(self) -> None:
        my_turn = threading.Event()
        with self._lock:
            if self._active < self.places and not self._waiting:
                self._active += 1
                return
            self._waiting.append(my_turn)
        try:
            if my_turn.wait(self.queue_s):
                return
        except BaseException:  # an interrupt must not keep a place
            with self._lock:
                if not my_turn.is_set():
                    self._waiting.remove(my_turn)
                    raise
            self.__exit__()
            raise
        with self._lock:
            if my_turn.is_set():
                return
            self._waiting.remove(my_turn)
        raise SandboxBusy(f"no place became free within {self.queue_s:g} s ({self.places} at once)")

    def __exit__(self, *_: object) -> None:
        with self._lock:
            if self._waiting:
                self._waiting.popleft().set()
            else:
                self._active -= 1
