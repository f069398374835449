"""Who may run when there is room for a few at once: first come, first served."""

from __future__ import annotations

import threading
from collections import deque

from sandboxes.types import SandboxBusy


class Turns:
    """A context that at most `places` threads are in; further ones wait in order, each for up to `queue_s`."""

    def __init__(self, places: int, queue_s: float) -> None:
        self.places, self.queue_s = places, queue_s
        self._lock = threading.Lock()
        self._waiting: deque[threading.Event] = deque()
        self._inside = 0

    def __enter__(self) -> None:
        turn = threading.Event()
        with self._lock:
            if self._inside < self.places and not self._waiting:
                self._inside += 1
                return
            self._waiting.append(turn)
        try:
            if turn.wait(self.queue_s):
                return
        except BaseException:  # an interrupt must not take a place along
            with self._lock:
                if not turn.is_set():
                    self._waiting.remove(turn)
                    raise
            self.__exit__()
            raise
        with self._lock:
            if turn.is_set():
                return
            self._waiting.remove(turn)
        raise SandboxBusy(f"no place became free within {self.queue_s:g} s ({self.places} at once)")

    def __exit__(self, *_: object) -> None:
        with self._lock:
            if self._waiting:
                self._waiting.popleft().set()
            else:
                self._inside -= 1
