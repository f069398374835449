"""How long threads have waited in queues for something that episodes share, which no deadline should pay for."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager


class QueueTimes:
    """Seconds in queues by thread. A call in a thread of its own begins with `forget`: identities are used again."""

    def __init__(self) -> None:
        self._sums: dict[int, float] = {}
        self._starts: dict[int, float] = {}

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Context of a wait of this thread. A wait within a wait counts once."""
        thread = threading.get_ident()
        if thread in self._starts:
            yield
            return
        self._starts[thread] = time.monotonic()
        try:
            yield
        finally:
            self._sums[thread] = self._sums.get(thread, 0.0) + time.monotonic() - self._starts.pop(thread)

    def seconds(self, thread: int) -> float:
        """Return how long a thread has waited so far, a wait under way included."""
        start = self._starts.get(thread)
        return self._sums.get(thread, 0.0) + (time.monotonic() - start if start is not None else 0.0)

    def forget(self, thread: int) -> None:
        """Begin anew for this identity of a thread."""
        self._sums.pop(thread, None)


QUEUE_TIMES = QueueTimes()
