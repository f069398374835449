"""Deadlines for calls of code that may hang: a late call is interrupted, and named if it cannot be interrupted.

One watchdog, `WATCHDOG`, serves the whole process. Commands start it; calls are made through it whether it runs or not:

    with WATCHDOG.running("rl.train"):
        tasks = WATCHDOG.load_call("tasks of mine.py:Game", env.load, "train")
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from math import inf
from typing import Any, NamedTuple

from envs.timers import INTERRUPT, Timers

INTERVAL_S = 0.25  # between two looks at what is late
GRACE_S, MIN_LOOKS = 3.0, 10  # a call that is so late, and was so at so many looks, cannot be interrupted
EXIT_CODE = 2  # of a process that ends because a call cannot be interrupted


class Overrun(Exception):
    """A call took longer than its deadline. The message is one line that names it, and the flag that sets the deadline.

    `start` is when the call began, by `time.monotonic`.
    """

    def __init__(self, message: str, start: float = -inf) -> None:
        super().__init__(message)
        self.start = start

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle how long ago it began: the clock of another machine says something else."""
        return _overrun, (type(self), str(self), time.monotonic() - self.start)


def _overrun(kind: type[Overrun], message: str, age_s: float) -> Overrun:
    return kind(message, time.monotonic() - age_s)


class Interruption(BaseException):
    """Raised inside a late call. No `Exception`, so that `except Exception` in an environment does not stop it."""


class Budgets(NamedTuple):
    """Seconds that a call may take; `--load-seconds` sets `load`, and so on.

    Attributes:
        load: Of an environment's import, its constructor, and each of its lists of tasks.
        step: Of one `reset`, `step` or `close`, or one reply of the oracle.
        episode: Of one episode.

    """

    load: float = 300.0
    step: float = 60.0
    episode: float = 3600.0


class Clock:
    """A clock that stops while the process is `paused`, busy with work that no deadline should pay for."""

    def __init__(self) -> None:
        self._paused_s = 0.0
        self._pause_start: float | None = None

    def now(self) -> float:
        """Return seconds since an arbitrary point, without the pauses."""
        end = time.monotonic() if self._pause_start is None else self._pause_start
        return end - self._paused_s

    def align(self, now: float) -> None:
        """Let `now()` be `now` from here on: the time of another process's clock, with its pauses."""
        self._paused_s += self.now() - now

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Context in which the clock stands still. A pause within a pause changes nothing."""
        if self._pause_start is not None:
            yield
            return
        self._pause_start = time.monotonic()
        try:
            yield
        finally:
            pause_s = time.monotonic() - self._pause_start
            self._paused_s, self._pause_start = self._paused_s + pause_s, None


@dataclass(slots=True, eq=False)
class _Call:
    """A call under way, from `start` to at most `end`, which is `deadline_s` later and what calls within it took."""

    label: str
    deadline_s: float
    flag: str
    thread: int
    start: float
    end: float
    is_active: bool = True
    num_looks: int = 0  # at which it was late
    has_fired: bool = False  # an asynchronous exception was sent to its thread

    @property
    def complaint(self) -> str:
        flag = f" ({self.flag})" if self.flag else ""
        return f"{self.label} took longer than {self.deadline_s:g} s{flag}"


class _Wait(AbstractContextManager[None]):
    """An entry of `waits` while it is entered: label, start and deadline."""

    __slots__ = ("_key", "_wait", "_waits")

    def __init__(self, waits: dict[int, tuple[str, float, float]], key: int, wait: tuple[str, float, float]) -> None:
        self._waits, self._key, self._wait = waits, key, wait

    def __enter__(self) -> None:
        self._waits[self._key] = self._wait

    def __exit__(self, *_error: object) -> None:
        del self._waits[self._key]


class Watchdog:
    """Interrupts calls and reports waits that exceed their deadline, while it is `running`.

    On the main thread a late call is interrupted by a signal, which reaches endless loops as well as calls that sleep
    or wait for a socket. On another thread only Python code can be interrupted. If a call on the main thread
    goes on for `GRACE_S` nevertheless, one line says where it is and the process ends with `EXIT_CODE`. Of calls within
    calls only the innermost one's time runs.

    Args:
        report: Prints a line.
        exit: Ends the process.
    """

    def __init__(
        self,
        report: Callable[[str], None] = lambda line: _print_line(line),
        exit: Callable[[int], Any] = os._exit,
    ) -> None:
        self.budgets = Budgets()
        self.clock = Clock()
        self.exit_note = ""  # added to the last line of a process that is ended
        self.report, self._exit = report, exit
        self._program = ""
        self._waits: dict[int, tuple[str, float, float]] = {}  # key -> label, start by `clock`, deadline in seconds
        self._late: set[int] = set()  # keys of waits that have been reported
        self._keys = iter(range(sys.maxsize))
        self._calls: dict[int, list[_Call]] = {}  # by thread, innermost last
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._is_running = False
        self._signal_thread: int | None = None  # the main thread, if signals reach its calls
        self._timers: Timers | None = None

    @contextmanager
    def running(self, program: str = "", *, interval_s: float = INTERVAL_S) -> Iterator[Watchdog]:
        """Context in which a thread looks every `interval_s` seconds for what is late. Budgets are restored afterwards.

        `program` begins the line that is printed when the process is ended. A context within this one changes nothing.
        """
        if self._is_running:
            yield self
            return
        self._is_running, self._program, budgets = True, program, self.budgets
        self._stop.clear()
        thread = threading.Thread(target=self._watch, args=(interval_s,), daemon=True, name="watchdog")
        thread.start()
        try:
            with self._signals():
                yield self
        finally:
            self._stop.set()
            thread.join()
            self._is_running, self.budgets, self.exit_note = False, budgets, ""

    def waiting(self, label: str, deadline_s: float) -> AbstractContextManager[None]:
        """Context of a wait named `label`, which is reported once if it takes longer than `deadline_s` seconds."""
        return _Wait(self._waits, next(self._keys), (label, self.clock.now(), deadline_s))

    def call(
        self, label: str, deadline_s: float, function: Callable[..., Any], *args: Any, flag: str = "", **kwargs: Any
    ) -> Any:
        """Call `function` on this thread; raise `Overrun` if it takes longer than `deadline_s` seconds.

        The function is interrupted by an `Interruption`, again at every look if it catches that. `label` names the call
        and `flag` what sets the deadline.
        """
        thread, start = threading.get_ident(), time.monotonic()
        calls = self._calls.setdefault(thread, [])
        call = _Call(label, deadline_s, flag, thread, start, start + deadline_s)
        calls.append(call)
        self._set_timers(call)
        try:
            try:
                return function(*args, **kwargs)
            finally:
                self._end_call(call)
        except Interruption:
            raise Overrun(call.complaint, start) from None
        finally:  # again, in case the interruption arrived within the first `_end_call`
            self._end_call(call)
            if call in calls:
                calls.remove(call)
            if calls:
                calls[-1].end += time.monotonic() - start
                self._set_timers(calls[-1])
            else:
                self._calls.pop(call.thread, None)

    def load_call(self, label: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Make a `call` that imports, constructs or lists tasks."""
        return self.call(label, self.budgets.load, function, *args, flag="--load-seconds", **kwargs)

    def step_call(self, label: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Make a `call` that resets, steps or closes an environment."""
        return self.call(label, self.budgets.step, function, *args, flag="--step-seconds", **kwargs)

    def _end_call(self, call: _Call) -> None:
        """Let no interruption arrive from now on."""
        call.is_active = False
        if call.has_fired:
            with self._lock:
                call.has_fired = False
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(call.thread), None)  # if it is on its way

    def _set_timers(self, call: _Call) -> None:
        if self._timers and call.thread == self._signal_thread:
            self._timers.set(call.end, self._program, f"error: {call.complaint} and cannot be interrupted")

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """Context in which `INTERRUPT` interrupts a late call on this thread, if it is the main one."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        handler = signal.signal(INTERRUPT, self._on_signal)
        self._signal_thread = threading.get_ident()
        self._timers = self._timers or Timers(GRACE_S, EXIT_CODE)
        try:
            yield
        finally:
            self._signal_thread = None
            self._timers.clear()
            signal.signal(INTERRUPT, signal.SIG_IGN if handler is None else handler)

    def _on_signal(self, number: int, frame: Any) -> None:
        calls = self._calls.get(threading.get_ident())
        if calls and calls[-1].is_active and time.monotonic() > calls[-1].end:
            raise Interruption

    def _watch(self, interval_s: float) -> None:
        while not self._stop.wait(interval_s):
            self._report_waits()
            if self._timers:
                self._timers.clear(lambda: self._calls.get(self._signal_thread or 0))
            now = time.monotonic()
            for calls in list(self._calls.values()):
                for call in calls[-1:]:
                    if now > call.end:
                        self._interrupt(call)

    def _report_waits(self) -> None:
        now = self.clock.now()
        waits = dict(self._waits)
        self._late &= waits.keys()
        for key, (label, start_time, deadline_s) in waits.items():
            if now - start_time > deadline_s and key not in self._late:
                self._late.add(key)
                self.report(f"waiting for {now - start_time:.0f} s: {label}")

    def _interrupt(self, call: _Call) -> None:
        """Raise `Interruption` in the call's thread; end the process if that is of no use on the main thread."""
        with self._lock:
            if not call.is_active:
                return
            if call.thread != self._signal_thread:
                call.has_fired = True
                interrupt_thread(call.thread)
                return
            call.num_looks += 1
            if call.num_looks <= MIN_LOOKS or time.monotonic() < call.end + GRACE_S:
                signal.pthread_kill(call.thread, INTERRUPT)
                return
            line = f"{call.complaint} and cannot be interrupted{_place(call.thread)}"
        note = f" ({self.exit_note})" * bool(self.exit_note)
        self.report(f"{self._program}: error: {line}{note}".removeprefix(": "))
        self._exit(EXIT_CODE)


def interrupt_thread(thread: int) -> None:
    """Raise `Interruption` in the thread with this identity, as soon as it runs Python code."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(Interruption))


def _place(thread: int) -> str:
    """Text that names the line at which a thread is; empty if that is not known."""
    frame = sys._current_frames().get(thread)
    return f", in {frame.f_code.co_name} at {frame.f_code.co_filename}:{frame.f_lineno}" if frame else ""


def _print_line(line: str) -> None:
    """Print to standard error without Python's buffers, which the late call may hold."""
    with suppress(OSError):
        os.write(2, f"{line}\n".encode(errors="backslashreplace"))


WATCHDOG = Watchdog()
