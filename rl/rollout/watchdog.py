"""Deadlines for calls on the event loop's own thread, and reports about whatever waits too long."""

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
    """Reports waits that exceed their deadline, and interrupts such calls on the event loop's thread.

    Works while `running()`: a thread checks once a second. To register a wait costs a microsecond or two. An
    interruption reaches Python code (an endless loop), not a C call that never returns.
    """

    def __init__(self, report: Callable[[str], None] = lambda line: print(line, file=sys.stderr, flush=True)) -> None:
        self._report = report
        self._waits: dict[int, tuple[str, float, float]] = {}  # key -> label, start time, deadline in seconds
        self._late: set[int] = set()  # keys of waits that have been reported
        self._keys = iter(range(sys.maxsize))
        self._lock = threading.Lock()
        self._call: tuple[int, float] | None = None  # thread and end time of the interruptible call under way
        self._has_fired = False
        self._stop = threading.Event()

    @contextmanager
    def running(self, interval_s: float = 1.0) -> Iterator[Watchdog]:
        """Context in which a thread checks every `interval_s` seconds for waits and calls beyond their deadlines."""
        self._stop.clear()
        thread = threading.Thread(target=self._watch, args=(interval_s,), daemon=True, name="watchdog")
        thread.start()
        try:
            yield self
        finally:
            self._stop.set()
            thread.join()

    @contextmanager
    def waiting(self, label: str, deadline_s: float) -> Iterator[None]:
        """Context of a wait named `label`, which is reported once if it takes longer than `deadline_s` seconds."""
        key = next(self._keys)
        self._waits[key] = (label, time.monotonic(), deadline_s)
        try:
            yield
        finally:
            del self._waits[key]

    def call(self, deadline_s: float, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call `function` on this thread; raise `Overrun` inside it if it takes longer than `deadline_s` seconds.

        If the function catches that, it is raised again at the next check. Calls must not be nested.
        """
        self._call, self._has_fired = (threading.get_ident(), time.monotonic() + deadline_s), False
        try:
            return function(*args, **kwargs)
        finally:
            try:
                self._end_call()
            finally:  # in case the interruption arrives within the first `_end_call`
                self._end_call()

    def _end_call(self) -> None:
        with self._lock:
            has_fired, self._has_fired, self._call = self._has_fired, False, None
        if has_fired:
            time.sleep(0.05)  # let the interruption arrive here, inside the call, and nowhere else

    def _watch(self, interval_s: float) -> None:
        while not self._stop.wait(interval_s):
            now = time.monotonic()
            waits = dict(self._waits)
            self._late &= waits.keys()
            for key, (label, start_time, deadline_s) in waits.items():
                if now - start_time > deadline_s and key not in self._late:
                    self._late.add(key)
                    self._report(f"waiting for {now - start_time:.0f} s: {label}")
            with self._lock:
                if self._call is not None and now > self._call[1]:
                    thread, self._has_fired = self._call[0], True
                    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(Overrun))
