"""A worker's process as its run sees it: starting it, calling it from an event loop, noticing that it has ended."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import IO

from envs.watchdog import EXIT_CODE, GRACE_S, WATCHDOG
from rl.rollout.workers.messages import Answer, Call, Drop, Inbox, frame

CHUNK = 1 << 20
TICK_S = 0.25  # between checks of a process that has calls to answer
SILENCE_S = 10.0  # beyond the deadline of a call, after which a process that says nothing is killed
CLOSE_S = 5.0  # for an orderly end
MAX_LINE = 2000  # bytes of a line of output, after which it is broken
_BOOT = (
    "import sys, json; sys.path[:] = json.loads(sys.argv[1]);"
    "from rl.rollout.workers.server import main; main(int(sys.argv[2]), int(sys.argv[3]), json.loads(sys.argv[4]))"
)


class WorkerLost(Exception):
    """The process ended before it had answered a call.

    Attributes:
        is_suspect: Whether the call was being made at that moment, and did not wait for others.
        overrun_s: If the process was ended because this call took too long: when it began, by `time.monotonic`.
    """

    def __init__(self, text: str, *, is_suspect: bool, overrun_s: float | None = None) -> None:
        super().__init__(text)
        self.is_suspect, self.overrun_s = is_suspect, overrun_s


@dataclass(slots=True)
class _Pending:
    """A call without an answer. `waits` says that it is made on the worker's main thread, after those before it."""

    call: Call
    future: asyncio.Future[Answer]
    waits: bool


class WorkerProcess:
    """The process and the socket to it. All methods but `close` are called on the thread of an event loop.

    One loop after another may use it: what was read and not understood yet is kept between them. What the process
    prints goes to standard error line by line, each behind the worker's name.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._inbox, self._outbox = Inbox(), bytearray()
        self._pending: dict[int, _Pending] = {}  # in the order in which they were sent
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ticks = False  # whether `_tick` is going to be called
        self._last_line = ""
        self._silence_start = time.monotonic()
        self._limit_s = 0.0  # longest deadline of a pending call
        self.end = ""  # how the process ended; empty while it lives
        self._socket, child_end = socket.socketpair()
        self._socket.setblocking(False)
        arguments = json.dumps(sys.path), str(child_end.fileno()), str(os.getpid()), json.dumps(WATCHDOG.budgets)
        with child_end:
            self._popen = subprocess.Popen(
                [sys.executable, *(f"-W{option}" for option in sys.warnoptions), "-c", _BOOT, *arguments],
                pass_fds=(child_end.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # out of reach of Ctrl-C
            )
        assert self._popen.stdout is not None
        self._printer = threading.Thread(target=self._print, args=(self._popen.stdout,), daemon=True, name="output")
        self._printer.start()

    @property
    def pid(self) -> int:
        """Process id."""
        return self._popen.pid

    async def call(self, call: Call, *, waits: bool) -> Answer:
        """Make a call and return its answer. Raises `WorkerLost` if the process ends before.

        `waits` says that the environment never waits for anything, so that the worker calls it on its main thread.
        """
        loop = asyncio.get_running_loop()
        if self.end:
            raise WorkerLost(self.end, is_suspect=False)
        self._attach(loop)
        pending = _Pending(call, loop.create_future(), waits)
        if not self._pending:
            self._silence_start, self._limit_s = time.monotonic(), 0.0
        self._pending[call.number] = pending
        self._limit_s = max(self._limit_s, call.seconds or WATCHDOG.budgets.load)
        self.send(call)
        if not self._ticks:
            self._ticks = True
            loop.call_later(TICK_S, self._tick, loop)
        return await pending.future

    def send(self, message: Call | Drop) -> None:
        """Send a message; one that the process will never read is lost."""
        if self.end:
            return
        self._outbox += frame(message)
        self._flush()

    def hang_up(self) -> None:
        """Let the process close its environments and end. What was sent and not yet taken is lost."""
        self._detach()
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self.end = self.end or f"{self.name} was closed"

    def close(self) -> None:
        """Wait until the process has ended after `hang_up`, and kill it if that takes more than a few seconds."""
        try:
            self._popen.wait(CLOSE_S)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait()
        self._printer.join(1.0)  # what the environments print when they are closed

    def _attach(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._loop is not loop:
            self._loop, self._ticks = loop, False
            self._pending.clear()  # calls of a loop that is gone; their answers are ignored
            loop.add_reader(self._socket, self._receive)

    def _detach(self) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._socket)
            self._loop.remove_writer(self._socket)
        self._loop = None

    def _flush(self) -> None:
        """Write as much as the socket takes, and the rest when it takes more."""
        try:
            while self._outbox:
                del self._outbox[: self._socket.send(self._outbox)]
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:  # the process is gone; reading tells how
            self._outbox.clear()
        if self._loop is not None and not self._loop.is_closed():
            if self._outbox:
                self._loop.add_writer(self._socket, self._flush)
            else:
                self._loop.remove_writer(self._socket)

    def _receive(self) -> None:
        """Read what there is, and set the results of calls."""
        try:
            data = self._socket.recv(CHUNK)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if not data:
            self._end()
            return
        self._silence_start = time.monotonic()
        for answer in self._inbox.add(data):
            pending = self._pending.pop(answer.number, None)
            if pending is not None and not pending.future.done():  # otherwise nobody waits for it any more
                pending.future.set_result(answer)

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        """Look whether the process lives and says something, as long as there are calls to answer."""
        if loop is not self._loop or self.end:
            return
        if not self._pending:
            self._ticks = False
            return
        is_dead = self._popen.poll() is not None  # a child of it may hold its end of the socket open
        before = None
        while before != self._silence_start and not self.end:  # whatever it said while this process was busy
            before = self._silence_start
            self._receive()
        if self.end:
            return
        if is_dead:
            self._end()
        elif time.monotonic() - self._silence_start > self._limit_s + GRACE_S + SILENCE_S:
            self._popen.kill()
            self._end(is_late=True)
        else:
            loop.call_later(TICK_S, self._tick, loop)

    def _end(self, *, is_late: bool = False) -> None:
        """Note that the process has ended, and fail all calls."""
        self._detach()
        self._socket.close()
        try:
            code = self._popen.wait(0.5)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            code = self._popen.wait()
        self._printer.join(0.5)
        how = f"was killed ({signal.Signals(-code).name})" if code < 0 else f"ended with exit code {code}"
        how = f"said nothing for {self._limit_s + GRACE_S + SILENCE_S:.0f} s and was killed" if is_late else how
        self.end = f"{self.name} (process {self.pid}) {how}" + (f": {self._last_line}" if self._last_line else "")
        pending, self._pending = list(self._pending.values()), {}
        at_head = next((one for one in pending if one.waits), None)  # the one that the main thread was making
        for one in pending:
            if one.future.done():
                continue
            is_suspect = one is at_head or not one.waits
            seconds, start = one.call.seconds, self._silence_start
            was_long = seconds is not None and time.monotonic() - start >= seconds
            is_overrun = is_suspect and was_long and (is_late or (code == EXIT_CODE and one.waits))
            lost = WorkerLost(self.end, is_suspect=is_suspect, overrun_s=start if is_overrun else None)
            one.future.set_exception(lost)

    def _print(self, stream: IO[bytes]) -> None:
        """Print what the process prints, in whole lines, on a thread of its own."""
        with stream:
            for line in iter(lambda: stream.readline(MAX_LINE), b""):
                text = line.decode(errors="replace").rstrip()
                if text:
                    self._last_line = text
                    with suppress(OSError, ValueError):
                        print(f"{self.name}: {text}", file=sys.stderr, flush=True)
