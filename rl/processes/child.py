"""A process that a run starts beside itself: starting it, talking with it on an event loop, noticing that it ended."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import IO, Any

from rl.processes.framing import Inbox, frame
from rl.processes.host import HERE, Place

CHUNK = 1 << 20
TICK_S = 0.25  # between checks of a process that something is expected from
CLOSE_S = 5.0  # for an orderly end
MAX_LINE = 2000  # bytes of a line of output, after which it is broken


class ChildProcess:
    """A process and the socket to it. All methods but `close` are called on the thread of an event loop.

    One loop after another may use it: what was read and not understood yet is kept between them. What the process
    prints goes to standard error line by line, each behind its name.

    Attributes:
        name: Names it in errors and before its output.
        end: How the process ended; empty while it lives.
        limit_note: What sets its longest silence, as " (NAME)"; may be empty.
    """

    limit_note = ""

    def __init__(
        self,
        name: str,
        module: str,
        *arguments: object,
        environment: Mapping[str, str] | None = None,
        place: Place = HERE,
    ) -> None:
        """Start the `main` of `module` in a process of its own session, out of reach of Ctrl-C; see `Host.start`."""
        self.name, self.end = name, ""
        self._inbox, self._outbox = Inbox(), bytearray()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ticks = False  # whether `_tick` is going to be called
        self._last_line = ""
        self._silence_start = time.monotonic()
        host, gpus, size = place
        variables = environment or {}
        self._socket, self._popen = host.start(name, module, arguments, variables, gpus=gpus, file_bytes=size)
        self._socket.setblocking(False)
        assert self._popen.stdout is not None
        self._printer = threading.Thread(target=self._print, args=(self._popen.stdout,), daemon=True, name="output")
        self._printer.start()

    @property
    def pid(self) -> int:
        """Process id."""
        return self._popen.pid

    def send(self, message: object) -> None:
        """Send a message; one that the process will never read is lost."""
        if self.end:
            return
        self._outbox += frame(message)
        self._flush()

    def hang_up(self) -> None:
        """Let the process end in order. What was sent and not yet taken is lost."""
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
        self._printer.join(1.0)  # what it prints while it ends

    def _is_expected(self) -> bool:
        """Hook: whether the process has something to say."""
        raise NotImplementedError

    def _max_silence_s(self) -> float:
        """Hook: after how many seconds of silence a process that has something to say is killed."""
        raise NotImplementedError

    def _on_new_loop(self) -> None:
        """Hook: another event loop uses the process; nobody waits for what was to come on the last one."""

    def _on_message(self, message: Any) -> None:
        """Hook: the process has sent this."""
        raise NotImplementedError

    def _on_end(self, code: int, *, is_late: bool) -> None:
        """Hook: the process has ended with an exit code; with `is_late` it was killed for its silence."""
        raise NotImplementedError

    def _attach(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._loop is not loop:
            self._loop, self._ticks = loop, False
            self._on_new_loop()
            loop.add_reader(self._socket, self._receive)

    def _detach(self) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._socket)
            self._loop.remove_writer(self._socket)
        self._loop = None

    def _start_ticks(self) -> None:
        """Look from time to time whether the process lives, as long as something is expected from it."""
        if not self._ticks and self._loop is not None and not self._loop.is_closed():
            self._ticks = True
            self._loop.call_later(TICK_S, self._tick, self._loop)

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
        """Read what there is."""
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
        for message in self._inbox.add(data):
            self._on_message(message)

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        """Look whether the process lives and says something, as long as that is expected."""
        if loop is not self._loop or self.end:
            return
        if not self._is_expected():
            self._ticks = False
            return
        is_dead = self._popen.poll() is not None  # a child of it may hold its end of the socket open
        before = None
        while before != self._silence_start and not self.end:  # whatever it said while this process was busy
            before = self._silence_start
            self._receive()
        if self.end:
            return
        if not self._popen.is_up:
            self._silence_start = time.monotonic()
        if is_dead:
            self._end()
        elif time.monotonic() - self._silence_start > self._max_silence_s():
            self._popen.kill()
            self._end(is_late=True)
        else:
            loop.call_later(TICK_S, self._tick, loop)

    def _end(self, *, is_late: bool = False) -> None:
        """Note that the process has ended."""
        self._detach()
        self._socket.close()
        try:
            code = self._popen.wait(0.5)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            code = self._popen.wait()
        self._printer.join(0.5)
        how = f"was killed ({signal.Signals(-code).name})" if code < 0 else f"ended with exit code {code}"
        if self._popen.fault:
            how = self._popen.fault
        elif is_late:
            how = f"said nothing for {round(self._max_silence_s(), 1):g} s{self.limit_note} and was killed"
        self.end = f"{self.name} ({self._popen.describe()}) {how}" + (f": {self._last_line}" if self._last_line else "")
        self._on_end(code, is_late=is_late)

    def _print(self, stream: IO[bytes]) -> None:
        """Print what the process prints, in whole lines, on a thread of its own."""
        with stream:
            for line in iter(lambda: stream.readline(MAX_LINE), b""):
                text = line.decode(errors="replace").rstrip()
                if text:
                    self._last_line = text
                    with suppress(OSError, ValueError):
                        print(f"{self.name}: {text}", file=sys.stderr, flush=True)
