"""The host's end of one place: what passes between a call's ends, and what its end means."""

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
from dataclasses import asdict
from typing import Any

from sandboxes import recycling
from sandboxes.local import codec
from sandboxes.local.fetch import read_files
from sandboxes.local.pipes import Traffic
from sandboxes.types import Limits, Result, SandboxDied, SandboxError, Status

LATE_S = 0.6  # after its deadline a warden that is still silent is ended from outside
_LOST = {"code": -9, "why": "timeout", "wall_s": 0.0, "cpu_s": 0.0, "memory_mb": 0.0, "clean": False}
_WHY = {"timeout": Status.TIMEOUT, "cpu": Status.CPU_LIMIT, "memory": Status.MEMORY_LIMIT}


class Call:
    """The ends of one program's pipes. Use as a context: they are closed in the end."""

    def __init__(self, place: Place, limits: Limits, *, has_stdin: bool) -> None:
        self.place, self.limits = place, limits
        channel, self._theirs = socket.socketpair()
        self.channel = channel.detach()
        self.out, out = os.pipe()
        self.err, err = os.pipe()
        self._box = [self._theirs.fileno(), out, err]
        self.stdin = -1
        if has_stdin:
            given, self.stdin = os.pipe()
            self._box.append(given)
        self.traffic = Traffic(place.wire, limits.output_kb << 10)
        self.stdout, self.stderr = self.traffic.drain(self.out), self.traffic.drain(self.err)

    def start(self, **words: Any) -> None:
        """Have the warden fork the process that has the other ends."""
        try:
            codec.send(self.place.wire, {"do": "start", "limits": asdict(self.limits), **words}, self._box)
        finally:
            self._close_theirs()

    def has_started(self) -> str | None:
        """None once the candidate's own code was let run, else what went wrong before; call it after the end."""
        try:
            said = os.read(self.channel, 1024)
        except OSError:
            said = b""
        if said.startswith(codec.STARTED):
            return None
        return said[1:].decode(errors="replace") or "it ended before it had started"

    def _close_theirs(self) -> None:
        if self._box:
            self._theirs.close()
            for descriptor in self._box[1:]:
                os.close(descriptor)
            self._box = []

    def close(self) -> None:
        """Close all ends."""
        self._close_theirs()
        for descriptor in (self.channel, self.out, self.err, self.stdin):
            if descriptor >= 0:
                os.close(descriptor)
        self.channel = self.out = self.err = self.stdin = -1

    def __enter__(self) -> Call:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()


class Place:
    """One warden, seen from the host. Used by one thread at a time."""

    def __init__(self, wire: socket.socket, pidfd: int, free: Callable[[], None]) -> None:
        """`free` is called once, when all that ran here has ended."""
        self.wire, self.pidfd, self._free = wire, pidfd, free
        self.is_good = True
        self.calls, self.used = 0, time.monotonic()
        self._keys, self._pid = 0, os.getpid()
        self._lock = threading.Lock()

    def new_key(self) -> int:
        """A name for one program."""
        self._keys += 1
        return self._keys

    def run(
        self, work: dict[str, Any], stdin: bytes, limits: Limits, timeout_s: float, *, fetch: Sequence[str], once: bool
    ) -> Result:
        """Run one program to its end. Raises SandboxDied, and OSError where its files do not fit."""
        key = self.new_key()
        with Call(self, limits, has_stdin=bool(stdin)) as call:
            call.start(key=key, cells=False, timeout_s=timeout_s, once=once, fetch=bool(fetch))
            call.traffic.feed(call.channel, codec.packed(work))
            if stdin:
                call.traffic.feed(call.stdin, stdin)
            message, descriptors = self.until_end(call, key, time.monotonic() + timeout_s + LATE_S)
            call.traffic.settle()
            trouble = call.has_started() if message is not _LOST else None
            try:
                if trouble and message["why"] is None:
                    raise _setup_fault(trouble)
                files, unread = read_files(descriptors[0], fetch, limits.disk_mb << 20) if descriptors else ({}, {})
            finally:
                for descriptor in descriptors:
                    os.close(descriptor)
            self.is_good &= message["clean"]
            self.calls, self.used = self.calls + 1, time.monotonic()
            return ended(message, call, files=files, unread=unread)

    def is_well(self) -> bool:
        """Whether its warden answers in time, and nothing is left that should not be. Between two calls."""
        try:
            codec.send(self.wire, {"do": "look"})
            answers = select.poll()
            answers.register(self.wire, select.POLLIN)
            if not answers.poll(1000 * recycling.ASKED_S):
                raise SandboxDied("a warden does not answer")
            message, _ = self.hear()
            self.is_good &= recycling.is_sound(message["others"], message["grown"])
        except SandboxDied:
            self.is_good = False
        self.used = time.monotonic()
        return self.is_good

    def until_end(self, call: Call, key: int, last: float) -> tuple[dict[str, Any], list[int]]:
        """Pass on what passes until the warden tells the program's end, or the clock shows `last`."""
        told = False
        while True:
            wait_s = last - time.monotonic()
            if wait_s <= 0:
                self.kill()
                if call.has_started():
                    raise SandboxDied("a warden did not start its candidate in time")
                return _LOST, []  # whatever held the warden up, the program had not ended at its deadline
            if call.traffic.step(wait_s):
                message, descriptors = self.hear()
                if message.get("ended") == key:
                    return message, descriptors
            if call.stdin >= 0 and call.traffic.is_fed(call.stdin):
                os.close(call.stdin)
                call.stdin = -1
            if call.traffic.is_flooded and not told:
                told = True
                codec.send(self.wire, {"do": "kill", "key": key})

    def hear(self) -> tuple[dict[str, Any], list[int]]:
        """The warden's next message. Raises SandboxDied where it is gone."""
        try:
            message, descriptors = codec.receive(self.wire)
        except EOFError:
            message, descriptors = {"fault": "it was killed"}, []
        if "fault" in message:
            self.is_good = False
            raise SandboxDied(f"a warden died in the middle of a call: {message['fault']}")
        return message, descriptors

    def kill(self) -> None:
        """End the warden, and so all that runs in the place."""
        self.is_good = False
        if self._pid != os.getpid():  # in a forked process it is left to the parent
            return
        with suppress(OSError):
            signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)

    def close(self) -> None:
        """End the place, and wait until it is gone."""
        with self._lock:
            if self.pidfd < 0:
                return
            self.wire.close()
            gone = select.poll()
            gone.register(self.pidfd, select.POLLIN)
            if self._pid == os.getpid() and not gone.poll(1000):
                self.kill()
                gone.poll(1000)
            os.close(self.pidfd)
            self.pidfd, self.is_good = -1, False
            self._free()


def ended(message: dict[str, Any], call: Call, **more: Any) -> Result:
    """What a warden's last word about a program means."""
    code, why = message["code"], message["why"]
    if call.traffic.is_flooded:
        status = Status.OUTPUT_LIMIT
    elif why:
        status = _WHY[why]
    elif code < 0:
        status = Status.SIGNAL
    else:
        status = Status.FAILED if code else Status.OK
    return Result(
        status,
        exit_code=code if status in (Status.OK, Status.FAILED) else None,
        signal=-code if status is Status.SIGNAL else None,
        stdout=text(call.stdout, call.traffic.most),
        stderr=text(call.stderr, call.traffic.most),
        wall_s=message["wall_s"],
        cpu_s=message["cpu_s"],
        memory_mb=message["memory_mb"],
        **more,
    )


def text(said: bytearray, most: int) -> str:
    """Output as text, at most `most` bytes of it."""
    return said[:most].decode("utf-8", "replace")


def _setup_fault(trouble: str) -> Exception:
    if f"Errno {errno.ENOSPC}" in trouble or f"Errno {errno.EFBIG}" in trouble:
        return OSError(errno.ENOSPC, "the files do not fit into the limits on disk and files")
    return SandboxError(f"a candidate's process could not be set up: {trouble}")
