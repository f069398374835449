"""The host's side of one place: sends programs to it, moves their input and output, and builds the results.

A place is one process tree: a warden, and the candidates (untrusted programs) that it forks and ends, one at a time.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from sandboxes import recycling
from sandboxes.local import codec
from sandboxes.local.call import Call, check_files, failure_to_start, files_too_large, make_result
from sandboxes.local.fetch import read_files
from sandboxes.types import Limits, Result, SandboxDied, SandboxError

OVERDUE_S = 0.6  # after its deadline a warden that is still silent is killed by the host
_NO_REPORT = {"code": -9, "why": "timeout", "wall_s": 0.0, "cpu_s": 0.0, "memory_mb": 0.0, "clean": False}
Report = tuple[dict[str, Any], list[int]]  # of the end of a program, with the descriptor of its folder, or none


class Place:
    """One warden (the process that forks and ends the programs of a place), as the host sees it.

    Used by one thread at a time, except `kill` and `close`.
    """

    def __init__(self, sock: socket.socket, pidfd: int, release: Callable[[], None]) -> None:
        """`sock` is connected to the warden, and `pidfd` is a descriptor of its process.

        `release` is called once, when everything that ran here has ended.
        """
        self.sock, self.pidfd, self._release = sock, pidfd, release
        self.is_reusable = True
        self.calls, self.last_used = 0, time.monotonic()
        self._last_key, self._pid = 0, os.getpid()
        self._reports: dict[int, Report] = {}  # of programs that have ended, until somebody asks
        self._lock = threading.Lock()

    def new_key(self) -> int:
        """Return a new number, which identifies one program in messages to and from the warden."""
        self._last_key += 1
        return self._last_key

    def run(
        self, work: dict[str, Any], stdin: bytes, limits: Limits, timeout_s: float, *, fetch: Sequence[str], once: bool
    ) -> Result:
        """Run one program to its end.

        Args:
            work: "program" (a Python source, the words of a command, or None to write files only), "files" (content
                by path) and "env" (variables by name).
            stdin: Its input.
            limits: What it may use.
            timeout_s: Wall time in seconds.
            fetch: Paths of files to read after the end, into `Result.files`.
            once: Whether the place is emptied afterwards; False in sessions.

        Raises:
            SandboxDied: The warden, the place's own process, went away or did not answer.
            SandboxError: The program's process could not be set up, in a place where no program could prevent it.
            OSError: The files cannot be written, for instance because they do not fit into the limits.
        """
        if work["files"]:
            check_files(work["files"], limits)
        key = self.new_key()
        was_used = not once and self.calls > 0
        with Call(self.sock, limits, has_stdin=bool(stdin)) as call:
            call.start(key=key, cells=False, timeout_s=timeout_s, once=once, fetch=bool(fetch))
            call.pipes.feed(call.channel, codec.pack_request(work))
            if stdin:
                call.pipes.feed(call.stdin, stdin)
            deadline = time.monotonic() + timeout_s + OVERDUE_S
            report, descriptors = self.wait_for_end(call, key, deadline, was_used=was_used)
            call.pipes.drain_ready()
            setup_error = call.setup_error() if report is not _NO_REPORT else None
            self.is_reusable &= report["clean"]
            try:
                if setup_error and report["why"] == "files" and work["files"]:
                    raise files_too_large() from setup_error
                if setup_error and report["why"] is None and not (isinstance(setup_error, SandboxError) and was_used):
                    raise setup_error
                files, unread = read_files(descriptors[0], fetch, limits.disk_mb << 20) if descriptors else ({}, {})
            finally:
                for descriptor in descriptors:
                    os.close(descriptor)
            self.calls, self.last_used = self.calls + 1, time.monotonic()
            if setup_error and report["code"] >= 0 and report["why"] is None:
                return failure_to_start(report.get("refused") or str(setup_error))
            return make_result(report, call, files=files, unread=unread)

    def is_healthy(self) -> bool:
        """Whether the warden, the place's own process, answers within two seconds and no process of a call is left.

        It must not have grown by much memory either. If not, `is_reusable` becomes False. Call it between two calls.
        """
        try:
            codec.send(self.sock, {"do": "look"})
            poll = select.poll()
            poll.register(self.sock, select.POLLIN)
            if not poll.poll(1000 * recycling.HEALTH_TIMEOUT_S):
                raise SandboxDied("a warden does not answer")
            message, _ = self.receive()
            self.is_reusable &= recycling.is_clean(message["others"], message["grown"])
        except SandboxDied:
            self.is_reusable = False
        self.last_used = time.monotonic()
        return self.is_reusable

    def open_folder(self, within_s: float) -> int:
        """Return a descriptor of the working directory, which the caller closes.

        Raises SandboxDied where the warden, the place's own process, has ended or does not answer in `within_s`
        seconds, and OSError where programs have ruined the directory for good.
        """
        codec.send(self.sock, {"do": "open"})
        poll = select.poll()
        poll.register(self.sock, select.POLLIN)
        deadline = time.monotonic() + within_s
        while poll.poll(1000 * max(0.0, deadline - time.monotonic())):
            message, descriptors = self.receive()
            if "opened" in message:
                if not descriptors:
                    raise OSError(errno.EIO, f"the working directory is gone: {message['opened']}")
                return descriptors[0]
        self.kill()
        raise SandboxDied("a warden does not answer")

    def take_report(self, key: int) -> Report | None:
        """Return the report of the end of the program `key`, if it has arrived; see `wait_for_end`."""
        return self._reports.pop(key, None)

    def wait_for_end(self, call: Call, key: int, deadline: float, *, was_used: bool) -> Report:
        """Move input and output until the warden, the place's own process, reports the end of the program `key`.

        Returns the report ("code": exit code, or minus the signal's number; "why" the warden ended it: "timeout",
        "cpu", "memory" or None; "wall_s", "cpu_s", "memory_mb"; "clean": whether no process is left), and a list with
        the descriptor of the working directory, which the caller closes, or [] if it was not asked for. `deadline` is a
        time of `time.monotonic`; after it the place is killed, and the report says "timeout". Raises SandboxDied where
        the warden has ended, or did not start the program in time in a place that no program `was_used` by.
        """
        kill_sent = False
        while True:
            wait_s = deadline - time.monotonic()
            if wait_s <= 0:
                self.kill()
                if call.setup_error() and not was_used:
                    raise SandboxDied("a warden did not start its candidate in time")
                return _NO_REPORT, []  # whatever delayed the warden, the program had not ended at its deadline
            if call.pipes.step(wait_s):
                self.receive()
                if report := self.take_report(key):
                    return report
            if call.stdin >= 0 and call.pipes.is_fed(call.stdin):
                os.close(call.stdin)
                call.stdin = -1
            if call.pipes.over_limit and not kill_sent:
                kill_sent = True
                codec.send(self.sock, {"do": "kill", "key": key})

    def receive(self) -> tuple[dict[str, Any], list[int]]:
        """Wait for the next message of the warden, the place's own process; return it and its file descriptors.

        Reports of ended programs are stored too, for `take_report`. Raises SandboxDied where the warden has ended.
        """
        try:
            message, descriptors = codec.receive(self.sock)
        except EOFError:
            message, descriptors = {"fault": "it was killed"}, []
        if "fault" in message:
            self.is_reusable = False
            raise SandboxDied(f"a warden died in the middle of a call: {message['fault']}")
        if "ended" in message:
            self._reports[message["ended"]] = message, descriptors
        return message, descriptors

    def kill(self) -> None:
        """Kill the warden, the place's own process, and so everything that runs there. Any thread may call it."""
        self.is_reusable = False
        if self._pid != os.getpid():  # a forked process leaves the place to its parent
            return
        with suppress(OSError):
            signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)

    def close(self) -> None:
        """End the place and wait until it is gone. May be called again."""
        with self._lock:
            if self.pidfd < 0:
                return
            self.sock.close()
            poll = select.poll()
            poll.register(self.pidfd, select.POLLIN)
            if self._pid == os.getpid() and not poll.poll(1000):
                self.kill()
                poll.poll(1000)
            os.close(self.pidfd)
            self.pidfd, self.is_reusable = -1, False
            self._release()
