"""The main loop of a worker: makes environments and calls functions on them as messages ask, until the run is gone.

Calls of environments that never wait are made one after the other on the main thread, where the watchdog can interrupt
whatever they do; a blocking environment is called in a thread of its own. The socket is read by another thread, so that
the end of the run is noticed during any call.
"""

from __future__ import annotations

import logging
import os
import pickle
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from queue import SimpleQueue
from typing import Any

from envs.exits import EnvExit, call_contained, close_env, error_text
from envs.step_info import StepInfo
from envs.watchdog import WATCHDOG, Budgets, Overrun, interrupt_thread
from rl.processes.framing import Inbox, frame
from rl.rollout.workers.errors import Unsendable, dump_error
from rl.rollout.workers.messages import Answer, Call, Drop, load_call

CHUNK = 1 << 20
LAST_S = 3.0  # for closing environments when the run is gone
LOOK_S = 0.05  # between two looks at the calls in threads
POLL_S = 0.5  # between checks whether the run's process lives

log = logging.getLogger(__name__)


def main(descriptor: int, parent: int, budgets: tuple[float, ...]) -> None:
    """Serve the socket `descriptor` until it is closed or process `parent` is gone; then end the process."""
    os.set_inheritable(descriptor, False)
    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    server = Server(socket.socket(fileno=descriptor))
    threading.Thread(target=server.watch_parent, args=(parent,), daemon=True, name="parent").start()
    threading.Thread(target=server.read, daemon=True, name="socket").start()
    with WATCHDOG.running():
        WATCHDOG.budgets = Budgets(*budgets)
        server.serve()
    sys.stdout.flush()
    sys.exit(0)  # in order, for whatever environments have left to `atexit`; `_end_soon` waits for no longer than that


class Server:
    """What a worker holds, and the socket to its run."""

    def __init__(self, channel: socket.socket) -> None:
        self._socket = channel
        self._kept: dict[int, Any] = {}  # environments and what belongs to them, by number
        self._envs: set[int] = set()  # numbers of the environments among it
        self._messages: SimpleQueue[Call | Drop | None] = SimpleQueue()
        self._is_ending = threading.Event()
        self._send_lock = threading.Lock()
        self._in_threads: dict[int, _ThreadCall] = {}  # by number of the call
        self._has_thread_calls = threading.Event()
        threading.Thread(target=self._watch_threads, daemon=True, name="deadlines").start()

    def read(self) -> None:
        """Put messages into the queue until the socket is closed, on a thread of its own."""
        inbox = Inbox()
        with suppress(OSError):
            while data := self._socket.recv(CHUNK):
                for message in inbox.add(data):
                    if isinstance(message, Call):
                        WATCHDOG.clock.align(message.now)
                    self._messages.put(message)
        self._end_soon()

    def watch_parent(self, parent: int) -> None:
        """End the process when its parent is gone; a fork of that may hold its end of the socket open."""
        while os.getppid() == parent:
            time.sleep(POLL_S)
        self._end_soon()

    def serve(self) -> None:
        """Do what messages ask, then close all environments."""
        while (message := self._messages.get()) is not None:
            if isinstance(message, Drop):
                self._drop(message)
            else:
                self._begin(message)
        for number in self._envs:
            with suppress(Overrun):
                close_env(self._kept[number])

    def _end_soon(self) -> None:
        """End the main loop, and the process if that takes too long."""
        if not self._is_ending.is_set():
            self._is_ending.set()
            self._messages.put(None)
            time.sleep(LAST_S)
            os._exit(0)

    def _begin(self, call: Call) -> None:
        """Make a call, or start the thread that makes it."""
        is_blocking = False
        try:
            if call.env is not None:
                env = self._kept[call.env]
                is_blocking = bool(getattr(env.unwrapped, "blocking", True))
            function, args, kwargs = load_call(call.content, self._kept.__getitem__)
        except Exception as error:
            self._answer(call, error, is_error=True)
            return
        if is_blocking:
            self._begin_in_thread(call, lambda: function(*args, **kwargs))
            return
        try:
            if call.seconds is None:
                result = call_contained(function, *args, **kwargs)
            else:
                label, seconds = call.label, call.seconds
                result = call_contained(WATCHDOG.call, label, seconds, function, *args, flag=call.flag, **kwargs)
        except Exception as error:
            self._answer(call, error, is_error=True)
        else:
            self._answer(call, result)

    def _begin_in_thread(self, call: Call, function: Callable[[], Any]) -> None:
        def run() -> None:
            try:
                result, is_error = call_contained(function), False
            except Exception as error:
                result, is_error = error, True
            if self._in_threads.pop(call.number, None) is not None:  # otherwise it was given up
                self._answer(call, result, is_error=is_error, is_blocking=True)

        thread = threading.Thread(target=run, daemon=True, name="env")
        self._in_threads[call.number] = _ThreadCall(call, thread)
        self._has_thread_calls.set()
        thread.start()

    def _watch_threads(self) -> None:
        """Interrupt calls in threads that are late, and answer in their place."""
        while True:
            self._has_thread_calls.wait()
            time.sleep(LOOK_S)
            self._has_thread_calls.clear()
            for number, late in list(self._in_threads.items()):
                self._has_thread_calls.set()
                if time.monotonic() < late.end or self._in_threads.pop(number, None) is None:
                    continue
                if late.thread.is_alive() and late.thread.ident:
                    interrupt_thread(late.thread.ident)
                call = late.call
                text = f"{call.label} took longer than {call.seconds:g} s ({call.flag})"
                self._answer(call, Overrun(text, late.start), is_error=True, is_blocking=True)

    def _answer(self, call: Call, result: Any, *, is_error: bool = False, is_blocking: bool = False) -> None:
        is_kept = not is_error and (call.keeps or isinstance(result, Iterator))
        content = b""
        if is_kept:
            self._keep(call, result)
            content = pickle.dumps(bool(getattr(getattr(result, "unwrapped", None), "blocking", True)))
        elif not is_error:
            try:
                content = _dump_result(result)
            except Exception as error:
                result, is_error = _unsendable(call, error), True
        if is_error:
            content = dump_error(result)
        data = frame(Answer(call.number, is_error, is_kept, is_blocking, content))
        with self._send_lock, suppress(OSError):  # the run is gone, which `read` notices
            self._socket.sendall(data)

    def _keep(self, call: Call, result: Any) -> None:
        self._kept[call.number] = result
        if call.env is None:
            self._envs.add(call.number)

    def _drop(self, drop: Drop) -> None:
        """Forget things; close an environment in a thread of its own because it may hang."""
        for number in drop.numbers:
            thing = self._kept.pop(number, None)
            if number in self._envs and drop.closes:
                threading.Thread(target=_close_quietly, args=(thing,), daemon=True, name="close env").start()
            self._envs.discard(number)


class _ThreadCall:
    """A call in a thread, and when it has to have ended."""

    def __init__(self, call: Call, thread: threading.Thread) -> None:
        self.call, self.thread, self.start = call, thread, time.monotonic()
        self.end = self.start + (call.seconds or float("inf"))


def _dump_result(result: Any) -> bytes:
    """Pickle a result. What an `info` holds besides the keys that this project reads is left out if it cannot be."""
    try:
        return pickle.dumps(result, pickle.HIGHEST_PROTOCOL)
    except Exception:
        if not (isinstance(result, tuple) and result and isinstance(result[-1], dict)):
            raise
    info = {key: value for key, value in result[-1].items() if key in StepInfo.__annotations__}
    return pickle.dumps((*result[:-1], info), pickle.HIGHEST_PROTOCOL)


def _unsendable(call: Call, error: Exception) -> Exception:
    return Unsendable(f"{call.label}: the result cannot be sent from a worker (--workers): {error_text(error)}")


def _close_quietly(env: Any) -> None:
    with suppress(Exception, EnvExit):  # nothing depends on how it closes
        call_contained(env.close)
