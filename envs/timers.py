"""Timers of the C library, for calls during which no other Python thread can run.

The search of a regular expression holds the interpreter's lock, so a thread cannot watch it, but it handles signals.
`sum(range(10**15))` handles none: only C functions can run then, one that prints a line and one that ends the process.
"""

from __future__ import annotations

import ctypes
import math
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from ctypes import c_int, c_long, c_void_p

INTERRUPT = signal.SIGURG  # ignored by default, and used by hardly anything else
INTERVAL_S = 0.25  # between two signals
SLACK_S = 1.0  # by which timers may expire late, so that they are not set anew for each of many short calls
PRINT_S = 0.5  # from the last line to the end of the process
MAX_LINE, MAX_NAME = 2000, 64  # bytes
MAX_TIMER_S = 1e6
CLOCK_MONOTONIC, SIGEV_SIGNAL, SIGEV_THREAD = 1, 0, 2  # of <time.h> and <signal.h>


class Timers:
    """Sends `INTERRUPT` to this process when a call is late, and ends the process if that is of no use.

    Then `warnx` prints the program's name and a line to standard error, and `_exit` ends the process with `exit_code`.
    Does nothing where the C library has no such timers.

    Args:
        grace_s: Seconds between the first signal and the line.
        exit_code: Of the process.
    """

    def __init__(self, grace_s: float, exit_code: int) -> None:
        self._grace_s = grace_s
        self._end = -math.inf  # by `time.monotonic`, when the first signal is sent; not set: -inf
        self._lock = threading.Lock()
        self._program = ""
        self._line, self._name = ctypes.create_string_buffer(MAX_LINE), ctypes.create_string_buffer(MAX_NAME)
        self._timers: list[c_void_p] = []
        with suppress(OSError, AttributeError, ValueError):
            self._libc = ctypes.CDLL(None, use_errno=True)
            self._timers = self._create(self._libc, exit_code)

    def _create(self, libc: ctypes.CDLL, exit_code: int) -> list[c_void_p]:
        """Create the timers of the signal, the line and the end. Raises `OSError` or `AttributeError`."""
        c_void_p.in_dll(libc, "program_invocation_short_name").value = ctypes.addressof(self._name)
        print_line, exit = (ctypes.cast(function, c_void_p).value for function in (libc.warnx, libc._exit))
        events = (
            _Event(None, INTERRUPT, SIGEV_SIGNAL),
            _Event(ctypes.addressof(self._line), 0, SIGEV_THREAD, print_line),
            _Event(exit_code, 0, SIGEV_THREAD, exit),
        )
        timers = []
        for event in events:
            timers.append(c_void_p())
            if libc.timer_create(CLOCK_MONOTONIC, ctypes.byref(event), ctypes.byref(timers[-1])):
                raise OSError(ctypes.get_errno(), "timer_create")
        return timers

    def set(self, end: float, program: str, line: str) -> None:
        """Watch a call that must end by `end`; `line` is printed if it never does."""
        if not self._timers:
            return
        if program != self._program:
            self._program, self._name.value = program, program.encode()[: MAX_NAME - 1]
        self._line.value = line.encode(errors="backslashreplace").replace(b"%", b"%%")[: MAX_LINE - 1]
        if not end <= self._end <= end + SLACK_S:
            with self._lock:
                self._end = end + SLACK_S
                seconds = min(max(self._end - time.monotonic(), INTERVAL_S), MAX_TIMER_S)
                for timer, delay in zip(self._timers, (0.0, self._grace_s, self._grace_s + PRINT_S), strict=True):
                    self._set_timer(timer, seconds + delay)

    def clear(self, is_busy: Callable[[], object] = lambda: False) -> None:
        """Stop the timers, unless `is_busy()`: a call is under way. May be called by another thread than `set`."""
        if self._end > -math.inf:
            with self._lock:
                end, self._end = self._end, -math.inf  # before the question: a later call sets the timers anew
                if is_busy():
                    self._end = end
                    return
                for timer in self._timers:
                    self._set_timer(timer, 0.0)

    def _set_timer(self, timer: c_void_p, seconds: float) -> None:
        """Let a timer expire in so many seconds, the first one again and again; 0 for never."""
        fraction, whole = math.modf(seconds)
        interval_ns = int(INTERVAL_S * 1e9) if timer is self._timers[0] else 0
        times = _Times(0, interval_ns, int(whole), int(fraction * 1e9))
        self._libc.timer_settime(timer, 0, ctypes.byref(times), None)


class _Event(ctypes.Structure):
    """`struct sigevent` of Linux. With SIGEV_THREAD, a new thread calls `function(value)` when the timer expires."""

    _fields_ = (
        ("value", c_void_p),
        ("signal", c_int),
        ("notify", c_int),
        ("function", c_void_p),
        ("attributes", c_void_p),
        ("padding", c_int * 8),
    )


class _Times(ctypes.Structure):
    """`struct itimerspec`."""

    _fields_ = (("interval_s", c_long), ("interval_ns", c_long), ("value_s", c_long), ("value_ns", c_long))
