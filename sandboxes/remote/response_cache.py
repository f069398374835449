"""Responses by request id: a request that is sent again because its response was lost is not executed again."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple


class Response(NamedTuple):
    """An HTTP status and a JSON body."""

    status: int
    body: bytes
    was_executed: bool = True  # whether anything was done for the request
    retry: bool = False  # whether the client should send it again later


@dataclass(slots=True)
class _Entry:
    ready: threading.Event = field(default_factory=threading.Event)
    response: Response | None = None


class ResponseCache:
    """The latest responses by request id, a text that a client makes up for each request. Threads may share it."""

    def __init__(self, max_bytes: int = 64 << 20, max_ids: int = 50_000) -> None:
        """Over `max_bytes` the oldest responses are dropped, but their ids stay: they are not executed again."""
        self._max_bytes, self._max_ids = max_bytes, max_ids
        self._lock = threading.Lock()
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._sizes: OrderedDict[str, int] = OrderedDict()  # bytes of the responses that are stored, oldest first
        self._bytes = 0

    def get_or_execute(self, id: str, execute: Callable[[], Response]) -> Response | None:
        """Call `execute` for a new request id and store its response; return the stored one for an id seen before.

        Where another thread executes that id, its response is waited for. Returns None where the response was dropped.
        An exception of `execute` is passed on, and its id is new again.
        """
        with self._lock:
            entry = self._entries.get(id)
            is_new = entry is None
            if entry is None:
                entry = self._entries[id] = _Entry()
        if not is_new:
            entry.ready.wait()
            return entry.response
        try:
            response = entry.response = execute()
        except BaseException:
            self._store(id, None)
            raise
        else:
            self._store(id, response)
        finally:
            entry.ready.set()
        return response

    def _store(self, id: str, response: Response | None) -> None:
        with self._lock:
            if response is None or not response.was_executed:
                del self._entries[id]
                return
            self._entries.move_to_end(id)
            self._sizes[id] = len(response.body)
            self._bytes += len(response.body)
            while self._bytes > self._max_bytes and len(self._sizes) > 1:
                oldest, size = self._sizes.popitem(last=False)
                self._entries[oldest].response = None
                self._bytes -= size
            while len(self._entries) > self._max_ids:
                oldest = next(iter(self._entries))
                if not self._entries[oldest].ready.is_set():
                    break
                del self._entries[oldest]
                self._bytes -= self._sizes.pop(oldest, 0)
