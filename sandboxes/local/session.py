"""A place that lasts: an interpreter in it once the first cell comes, and files between calls. Remembers nothing."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sandboxes import json_values
from sandboxes.local import codec
from sandboxes.local.fetch import read_file
from sandboxes.local.place import LATE_S, Call, Place, ended, text
from sandboxes.types import Limits, Program, Result, SandboxDied, SandboxError, Status

UNWATCHED_S = 0.02  # cells that are shorter never wake the warden
GRACE_S = 0.3  # from the interrupt at the deadline to the end of the whole session


class PlaceRoom:
    """See `sandboxes.session_base.Room`."""

    def __init__(self, place: Place, limits: Limits) -> None:
        self.place, self.limits = place, limits
        self._interpreter: _Interpreter | None = None

    def ask(self, work: dict[str, Any], timeout_s: float) -> tuple[Result, bool]:
        """See `Room.ask`."""
        if self._interpreter is None:
            self._interpreter = _Interpreter(self.place, self.limits)
        elif not self._interpreter.is_idle():  # it spoke, or ended, between two calls
            return Result(Status.GARBLED, stderr="the interpreter spoke without being asked, or ended"), False
        result = self._interpreter.ask(work, timeout_s)
        return result, self._interpreter.is_alive

    def run(self, program: Program | None, files: Mapping[str, bytes], stdin: bytes, timeout_s: float) -> Result:
        """See `Room.run`."""
        work = {"program": program, "files": dict(files), "env": {}}
        return self.place.run(work, stdin, self.limits, timeout_s, fetch=(), once=False)

    def read(self, path: str, max_bytes: int) -> bytes:
        """See `Room.read`."""
        folder = self._folder()
        try:
            return read_file(folder, path, max_bytes)
        finally:
            os.close(folder)

    def kill(self) -> None:
        """See `Room.kill`."""
        self.place.kill()

    def close(self) -> None:
        """See `Room.close`."""
        if self._interpreter:
            self._interpreter.call.close()
            self._interpreter = None
        self.place.close()

    def _folder(self) -> int:
        """A descriptor of the working directory, had from a process that does nothing."""
        key = self.place.new_key()
        with Call(self.place, self.limits, has_stdin=False) as call:
            call.start(key=key, cells=False, timeout_s=5.0, once=False, fetch=True)
            call.traffic.feed(call.channel, codec.packed({"program": None, "files": {}, "env": {}}))
            _, descriptors = self.place.until_end(call, key, time.monotonic() + 5.0 + LATE_S)
            return descriptors[0]


class _Interpreter:
    """The host's end of a session's interpreter."""

    def __init__(self, place: Place, limits: Limits) -> None:
        self.place, self.is_alive = place, True
        self.key = place.new_key()
        self.call = Call(place, limits, has_stdin=False)
        self.call.start(key=self.key, cells=True, timeout_s=0, once=False, fetch=False)
        self.traffic = self.call.traffic
        self.answers = self.traffic.drain(self.call.channel)
        last = time.monotonic() + 5.0
        while not self.answers:
            if self.traffic.step(last - time.monotonic()) or time.monotonic() > last:
                raise SandboxDied("an interpreter did not start")
        if not self.answers.startswith(codec.STARTED):
            raise SandboxError(f"an interpreter could not be set up: {self.answers[1:].decode(errors='replace')}")
        del self.answers[:1]

    def is_idle(self) -> bool:
        """Whether it is there and waits. What its threads printed since the last call is dropped."""
        if self.traffic.step(0):
            return False
        self.traffic.settle()
        return not self.answers and not self.traffic.is_flooded

    def ask(self, work: dict[str, Any], timeout_s: float) -> Result:
        """One cell or call, to its end or to that of the session."""
        began = time.monotonic()
        self.call.stdout.clear()
        self.call.stderr.clear()
        self.traffic.feed(self.call.channel, codec.packed(work))
        is_watched = is_late = is_killed = False
        while True:
            spent_s = time.monotonic() - began
            if spent_s > timeout_s + GRACE_S + LATE_S:
                self.place.kill()
                raise SandboxDied("a warden did not end its candidate in time")
            until = timeout_s if not is_late else timeout_s + GRACE_S + LATE_S
            until = until if is_watched else min(UNWATCHED_S, until)
            if self.traffic.step(until - spent_s):
                message, _ = self.place.hear()
                if message.get("ended") == self.key:
                    self.is_alive = False
                    self.traffic.settle()
                    return ended(message, self.call)
            if self._is_answered():
                return self._result(began, is_watched=is_watched, is_late=is_late)
            spent_s = time.monotonic() - began
            if not is_watched and spent_s >= min(UNWATCHED_S, timeout_s):
                is_watched = True
                self._tell("watch", timeout_s=timeout_s - spent_s + GRACE_S)
            if not is_late and spent_s >= timeout_s:
                is_late = True
                self._tell("interrupt")
            if self.traffic.is_flooded and not is_killed:
                is_killed = True
                self._tell("kill")

    def _tell(self, what: str, **words: Any) -> None:
        codec.send(self.place.wire, {"do": what, "key": self.key, **words})

    def _is_answered(self) -> bool:
        if len(self.answers) < codec.HEADER.size:
            return False
        size = codec.HEADER.unpack_from(self.answers)[0]  # larger than may be: forged, and not to be waited for
        return len(self.answers) >= codec.HEADER.size + size or size > self.traffic.most

    def _result(self, began: float, *, is_watched: bool, is_late: bool) -> Result:
        self.traffic.settle()
        said = bytes(self.answers[codec.HEADER.size :])
        is_whole = len(said) == codec.HEADER.unpack_from(self.answers)[0]
        self.answers.clear()
        if is_watched:
            self._tell("rest")
        result = _read_answer(said) if is_whole else _GARBLED
        if is_late and result.status is not Status.GARBLED:
            result = replace(result, status=Status.TIMEOUT, exit_code=None)
        if self.traffic.is_flooded:
            result = replace(result, status=Status.OUTPUT_LIMIT, exit_code=None, value=None)
        if result.status in (Status.GARBLED, Status.OUTPUT_LIMIT):
            self.is_alive = False
        stdout, stderr = (text(held, self.traffic.most) for held in (self.call.stdout, self.call.stderr))
        return replace(result, stdout=stdout, stderr=stderr, wall_s=time.monotonic() - began)


_GARBLED = Result(Status.GARBLED)


def _read_answer(said: bytes) -> Result:
    """An answer from code that may have forged it."""
    try:
        answer = json.loads(said)
        error, value = answer["error"], answer["value"]
        if not isinstance(error, str) or not (value is None or isinstance(value, str)):
            return _GARBLED
    except (ValueError, TypeError, KeyError, RecursionError):
        return _GARBLED
    if error:
        return Result(Status.FAILED, exit_code=1, error=error)
    try:
        return Result(Status.OK, exit_code=0, value=None if value is None else json_values.load(value))
    except json_values.NotPlain as fault:
        return Result(Status.FAILED, exit_code=1, error=f"NotPlain: {fault}")
