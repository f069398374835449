"""What was answered already: a request whose answer was lost is answered again, and not done again."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple


class Answer(NamedTuple):
    """One answer: an HTTP status, its body, and whether anything was done for it."""

    status: int
    body: bytes
    done: bool = True
    retry: bool = False  # busy: ask again later


@dataclass(slots=True)
class _Entry:
    ended: threading.Event = field(default_factory=threading.Event)
    answer: Answer | None = None


class Answers:
    """The last answers by the names of their requests. Threads may share it."""

    def __init__(self, most_bytes: int = 64 << 20, most_names: int = 50_000) -> None:
        """Beyond `most_bytes` the oldest answers go, but not the names: their requests are still not done again."""
        self._most_bytes, self._most_names = most_bytes, most_names
        self._lock = threading.Lock()
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._full: OrderedDict[str, int] = OrderedDict()  # those whose answer is there, oldest first: its bytes
        self._bytes = 0

    def once(self, name: str, do: Callable[[], Answer]) -> Answer | None:
        """What `do` answers the first time; the same later, waiting for its end. None where it was too long ago."""
        with self._lock:
            entry = self._entries.get(name)
            is_first = entry is None
            if entry is None:
                entry = self._entries[name] = _Entry()
        if not is_first:
            entry.ended.wait()
            return entry.answer
        try:
            answer = entry.answer = do()
        except BaseException:
            self._keep(name, None)
            raise
        else:
            self._keep(name, answer)
        finally:
            entry.ended.set()
        return answer

    def _keep(self, name: str, answer: Answer | None) -> None:
        with self._lock:
            if answer is None or not answer.done:
                del self._entries[name]
                return
            self._entries.move_to_end(name)
            self._full[name] = len(answer.body)
            self._bytes += len(answer.body)
            while self._bytes > self._most_bytes and len(self._full) > 1:
                oldest, size = self._full.popitem(last=False)
                self._entries[oldest].answer = None
                self._bytes -= size
            while len(self._entries) > self._most_names:
                oldest = next(iter(self._entries))
                if not self._entries[oldest].ended.is_set():
                    break
                del self._entries[oldest]
                self._bytes -= self._full.pop(oldest, 0)
