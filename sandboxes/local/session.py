"""The backend of a `local` session: a place with files, and an interpreter in it from the first cell on.

A place is a process tree: the warden, which forks and ends untrusted programs, and those programs.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sandboxes import json_values
from sandboxes.local import codec
from sandboxes.local.call import Call, decode_output, failure_to_start, make_result
from sandboxes.local.fetch import read_file
from sandboxes.local.place import OVERDUE_S, Place, Report
from sandboxes.types import Limits, Program, Result, SandboxError, Status

UNWATCHED_S = 0.02  # cells that are shorter never wake the warden
GRACE_S = 0.3  # from the interrupt at the deadline to the end of the whole session
SETUP_S = 5.0  # for an interpreter to start, or a descriptor to arrive


class PlaceBackend:
    """Runs a session's cells, calls and programs in a place, a process tree of its own; see `SessionBackend`."""

    def __init__(self, place: Place, limits: Limits) -> None:
        self.place, self.limits = place, limits
        self._interpreter: _InterpreterClient | None = None

    def evaluate(self, work: dict[str, Any], timeout_s: float) -> tuple[Result, bool]:
        """Run a cell or a call in the interpreter; see `SessionBackend.evaluate`."""
        if self._interpreter is None:
            self._interpreter = _InterpreterClient(self.place, self.limits)
            if failure := self._interpreter.start(timeout_s):
                return failure, False
        elif failure := self._interpreter.idle_failure():
            return failure, False
        result = self._interpreter.evaluate(work, timeout_s)
        return result, self._interpreter.is_alive

    def run(
        self, program: Program | None, files: Mapping[str, bytes], stdin: bytes, timeout_s: float
    ) -> tuple[Result, bool]:
        """Run a program; see `SessionBackend.run`."""
        work = {"program": program, "files": dict(files), "env": {}}
        result = self.place.run(work, stdin, self.limits, timeout_s, fetch=(), once=False)
        return result, self.place.is_reusable

    def read(self, path: str, max_bytes: int) -> bytes:
        """Read a file; see `SessionBackend.read`."""
        folder = self.place.open_folder(SETUP_S)
        try:
            return read_file(folder, path, max_bytes)
        finally:
            os.close(folder)

    def kill(self) -> None:
        """Kill what runs now; see `SessionBackend.kill`."""
        self.place.kill()

    def close(self) -> None:
        """Free everything; see `SessionBackend.close`."""
        if self._interpreter:
            self._interpreter.call.close()
            self._interpreter = None
        self.place.close()


class _InterpreterClient:
    """The host's side of a session's interpreter."""

    def __init__(self, place: Place, limits: Limits) -> None:
        self.place, self.is_alive = place, True
        self.key = place.new_key()
        self.call = Call(place.sock, limits, has_stdin=False)
        self.pipes = self.call.pipes
        self.replies = self.pipes.drain(self.call.channel)

    def start(self, timeout_s: float) -> Result | None:
        """Start it. Returns None, or what happened to it where a program that runs in the session prevents that.

        Such a program is given two seconds, or `timeout_s`. Raises SandboxError where it does not start and no program
        has run before.
        """
        self.call.start(key=self.key, cells=True, timeout_s=0, once=False, fetch=False)
        within_s = min(SETUP_S, max(2.0, timeout_s)) if self.place.calls else SETUP_S
        deadline, report = time.monotonic() + within_s, None
        while not self.replies and report is None and time.monotonic() < deadline:
            if self.pipes.step(deadline - time.monotonic()):
                self.place.receive()
                report = self.place.take_report(self.key)
        self.pipes.drain_ready()
        if self.replies.startswith(codec.STARTED):
            del self.replies[:1]
            self.place.calls += 1
            return None
        reason = self.replies[1:].decode(errors="replace") or "an interpreter did not start"
        if not self.place.calls:
            raise SandboxError(f"an interpreter could not be set up: {reason}")
        self.is_alive = False
        if report is None:
            return Result(Status.TIMEOUT)
        if report[0]["code"] < 0:
            return make_result(report[0], self.call)
        return failure_to_start(report[0].get("refused", reason))

    def idle_failure(self) -> Result | None:
        """Return None if it waits for a request, else the result of a call: it wrote, or ended, since the last one.

        What its threads have printed since then is dropped.
        """
        while self.pipes.step(0):
            self.place.receive()
        self.pipes.drain_ready()
        report = self.place.take_report(self.key)
        if self.replies or self.pipes.over_limit:
            return Result(Status.GARBLED, stderr="the interpreter spoke without being asked")
        if report or self.pipes.is_at_end(self.call.channel):
            return Result(Status.ENDED, stderr=f"the interpreter had ended since the last call{_cause(report)}")
        return None

    def evaluate(self, work: dict[str, Any], timeout_s: float) -> Result:
        """Run one cell or call, to its end or that of the session."""
        start_time = time.monotonic()
        self.call.stdout.clear()
        self.call.stderr.clear()
        self.pipes.feed(self.call.channel, codec.pack_request(work))
        is_watched = is_late = kill_sent = False
        while True:
            elapsed_s = time.monotonic() - start_time
            if elapsed_s > timeout_s + GRACE_S + OVERDUE_S:
                self.place.kill()
                self.is_alive = False
                return self._with_output(Result(Status.TIMEOUT), start_time)
            wake_s = timeout_s if not is_late else timeout_s + GRACE_S + OVERDUE_S
            wake_s = wake_s if is_watched else min(UNWATCHED_S, wake_s)
            if self.pipes.step(wake_s - elapsed_s):
                self.place.receive()
                if report := self.place.take_report(self.key):
                    self.is_alive = False
                    self.pipes.drain_ready()
                    return make_result(report[0], self.call)
            if self._has_reply():
                return self._read_result(start_time, is_watched=is_watched, is_late=is_late)
            elapsed_s = time.monotonic() - start_time
            if not is_watched and elapsed_s >= min(UNWATCHED_S, timeout_s):
                is_watched = True
                self._send("watch", timeout_s=timeout_s - elapsed_s + GRACE_S)
            if not is_late and elapsed_s >= timeout_s:
                is_late = True
                self._send("interrupt")
            if self.pipes.over_limit and not kill_sent:
                kill_sent = True
                self._send("kill")

    def _send(self, command: str, **fields: Any) -> None:
        codec.send(self.place.sock, {"do": command, "key": self.key, **fields})

    def _has_reply(self) -> bool:
        if len(self.replies) < codec.HEADER.size:
            return False
        size = codec.HEADER.unpack_from(self.replies)[0]  # over the limit it is forged, and not waited for
        return len(self.replies) >= codec.HEADER.size + size or size > self.pipes.max_bytes

    def _read_result(self, start_time: float, *, is_watched: bool, is_late: bool) -> Result:
        self.pipes.drain_ready()
        reply = bytes(self.replies[codec.HEADER.size :])
        is_complete = len(reply) == codec.HEADER.unpack_from(self.replies)[0]
        self.replies.clear()
        if is_watched:
            self._send("rest")
        result = _parse_reply(reply) if is_complete else _GARBLED
        if is_late and result.status is not Status.GARBLED:
            result = replace(result, status=Status.TIMEOUT, exit_code=None)
        if self.pipes.over_limit:
            result = replace(result, status=Status.OUTPUT_LIMIT, exit_code=None, value=None)
        if result.status in (Status.GARBLED, Status.OUTPUT_LIMIT):
            self.is_alive = False
        return self._with_output(result, start_time)

    def _with_output(self, result: Result, start_time: float) -> Result:
        stdout, stderr = (
            decode_output(buffer, self.pipes.max_bytes) for buffer in (self.call.stdout, self.call.stderr)
        )
        return replace(result, stdout=stdout, stderr=stderr, wall_s=time.monotonic() - start_time)


_GARBLED = Result(Status.GARBLED)


def _cause(report: Report | None) -> str:
    """How an interpreter ended, for the end of a sentence; "" before its warden has reported it."""
    if report is None:
        return ""
    code, why = report[0]["code"], report[0]["why"]
    if why:
        return f": over its limit of {why}"
    return f": signal {-code}" if code < 0 else f": exit code {code}"


def _parse_reply(text: bytes) -> Result:
    """The result of a reply, which the code in the interpreter may have forged."""
    try:
        reply = json.loads(text)
        error, value = reply["error"], reply["value"]
        if not isinstance(error, str) or not (value is None or isinstance(value, str)):
            return _GARBLED
    except (ValueError, TypeError, KeyError, RecursionError):
        return _GARBLED
    if error:
        error = error.encode(errors="backslashreplace").decode()  # JSON can hold what UTF-8 cannot
        return Result(Status.FAILED, exit_code=1, error=error)
    try:
        return Result(Status.OK, exit_code=0, value=None if value is None else json_values.load(value))
    except json_values.NotPlain as fault:
        return Result(Status.FAILED, exit_code=1, error=f"NotPlain: {fault}")
