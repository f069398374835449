"""A bounded cache that computes each value once, also when several threads ask for it at the same time."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Generic, TypeVar

Value = TypeVar("Value")


class Memo(Generic[Value]):
    """A cache of at most `max_size` values by key; the oldest is dropped first.

    Values that fail `is_cacheable` are not stored, nor is None.
    """

    def __init__(self, max_size: int, is_cacheable: Callable[[Value], bool] = lambda value: True) -> None:
        self._max_size, self._is_cacheable = max_size, is_cacheable
        self._lock = threading.Lock()
        self._futures: OrderedDict[Hashable, Future[Value | None]] = OrderedDict()

    def get_or_compute(self, key: Hashable, compute: Callable[[], Value]) -> tuple[Value, bool]:
        """Return the value of `key`, and whether this very call computed it.

        A caller that comes while another thread computes the value waits for it. Where that computation raises, or its
        value is not cacheable, each waiting caller runs its own `compute` and meets its own exception.
        """
        with self._lock:
            future = self._futures.get(key)
            if future is None:
                own = self._futures[key] = Future()
                if len(self._futures) > self._max_size:
                    self._futures.popitem(last=False)
        if future is not None:
            value = future.result()
            return (compute(), True) if value is None else (value, False)
        value = None
        try:
            value = compute()
            return value, True
        finally:
            if value is not None and not self._is_cacheable(value):
                value = None
            if value is None:
                with self._lock:
                    self._futures.pop(key, None)
            own.set_result(value)
