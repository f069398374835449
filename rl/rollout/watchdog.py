"""Deadlines for calls that run on the event loop's own thread, and a word about whatever waits too long."""

from __future__ import annotations

import ctypes
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class Overrun(Exception):
    """A call on the event loop's thread was interrupted because it took longer than its deadline."""


class Watchdog:
    """Knows what is being waited for. Once started, it names what is late and interrupts late calls of this thread.

    A wait costs a microsecond or two; the work is done by a thread that looks once a second.
    An interruption reaches Python code (a loop that never ends), not a C call that never returns.
    """

    def __init__(self, report: Callable[[str], None] = lambda line: print(line, file=sys.stderr, flush=True)) -> None:
        self._report = report
        self._waits: dict[int, tuple[str, float, float]] = {}  # key -> label, since, deadline
        self._told: set[int] = set()
        self._keys = iter(range(sys.maxsize))
        self._lock = threading.Lock()
        self._inside: tuple[int, float] | None = None  # thread, deadline of an interruptible call
        self._fired = False
        self._stopped = threading.Event()

    @contextmanager
    def started(self, every_s: float = 1.0) -> Iterator[Watchdog]:
        """Watch while the block runs."""
        self._stopped.clear()
        thread = threading.Thread(target=self._watch, args=(every_s,), daemon=True, name="watchdog")
        thread.start()
        try:
            yield self
        finally:
            self._stopped.set()
            thread.join()

    @contextmanager
    def waiting(self, label: str, deadline_s: float) -> Iterator[None]:
        """Say that something called `label` is under way and should take at most `deadline_s`."""
        key = next(self._keys)
        self._waits[key] = (label, time.monotonic(), deadline_s)
        try:
            yield
        finally:
            del self._waits[key]

    def interruptible(self, deadline_s: float, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call `function` here; raise `Overrun` inside it when it takes longer than `deadline_s`.

        Again and again, should it catch that. Not for calls inside such calls.
        """
        self._inside, self._fired = (threading.get_ident(), time.monotonic() + deadline_s), False
        try:
            return function(*args, **kwargs)
        finally:
            try:
                self._left()
            finally:  # should the interruption arrive just there
                self._left()

    def _left(self) -> None:
        with self._lock:
            fired, self._fired, self._inside = self._fired, False, None
        if fired:
            time.sleep(0.05)  # let the interruption arrive here, inside the call, and nowhere else

    def _watch(self, every_s: float) -> None:
        while not self._stopped.wait(every_s):
            now = time.monotonic()
            waits = dict(self._waits)
            self._told &= waits.keys()
            for key, (label, since, deadline) in waits.items():
                if now - since > deadline and key not in self._told:
                    self._told.add(key)
                    self._report(f"waiting for {now - since:.0f} s: {label}")
            with self._lock:
                if self._inside is not None and now > self._inside[1]:
                    thread, self._fired = self._inside[0], True
                    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(Overrun))
