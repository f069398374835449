"""Values that are worked out once for all who ask, also where several threads ask at the same time."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Generic, TypeVar

Value = TypeVar("Value")


class Memo(Generic[Value]):
    """At most `most` values by their keys; the oldest are forgotten. `lasts` tells which values may be remembered."""

    def __init__(self, most: int, lasts: Callable[[Value], bool] = lambda value: True) -> None:
        self._most, self._lasts = most, lasts
        self._lock = threading.Lock()
        self._known: OrderedDict[Hashable, Future[Value | None]] = OrderedDict()

    def once(self, key: Hashable, work: Callable[[], Value]) -> tuple[Value, bool]:
        """The value of a key, and whether this very call worked it out.

        Who asks while another thread works waits for it. Where that fails, or its value does not last, everyone works
        alone, and meets the failure alone.
        """
        with self._lock:
            found = self._known.get(key)
            if found is None:
                mine = self._known[key] = Future()
                if len(self._known) > self._most:
                    self._known.popitem(last=False)
        if found is not None:
            value = found.result()
            return (work(), True) if value is None else (value, False)
        value = None
        try:
            value = work()
            return value, True
        finally:
            if value is not None and not self._lasts(value):
                value = None
            if value is None:
                with self._lock:
                    self._known.pop(key, None)
            mine.set_result(value)
