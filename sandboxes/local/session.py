"""A session of `local`: a place of its own, in it an interpreter once the first cell comes, files between calls."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from sandboxes import plain
from sandboxes.local import wires
from sandboxes.local.fetch import read_file
from sandboxes.local.place import LATE_S, Call, Place, ended, text
from sandboxes.types import (
    Content,
    Limits,
    Program,
    ReplayDiverged,
    Result,
    SandboxClosed,
    SandboxDied,
    SandboxError,
    Status,
    as_bytes,
    relative,
)

UNWATCHED_S = 0.02  # cells that are shorter never wake the warden
GRACE_S = 0.3  # from the interrupt at the deadline to the end of the whole session


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that was done in a session, to be done again by a fork."""

    method: str
    arguments: tuple[Any, ...]
    words: dict[str, Any]
    status: Status | None


class LocalSession:
    """See `sandboxes.types.Session`. Threads may share it; they wait for each other."""

    def __init__(self, place: Place, limits: Limits, again: Callable[[], LocalSession]) -> None:
        """`again` opens a fresh session of the same kind."""
        self.place, self.limits, self._again = place, limits, again
        self._lock = threading.RLock()
        self._interpreter: _Interpreter | None = None
        self._steps: list[Step] = []
        self._over: Status | None = None
        self._closed = False

    @property
    def alive(self) -> bool:
        """Whether another call would run."""
        return not self._closed and self._over is None

    def cell(self, source: str, *, timeout_s: float = 10.0) -> Result:
        """See `Session.cell`."""
        return self._kept("cell", (source,), {"timeout_s": timeout_s}, lambda: self._ask({"source": source}, timeout_s))

    def call(self, function: str, *arguments: object, timeout_s: float = 10.0, **keywords: object) -> Result:
        """See `Session.call`."""
        work = {
            "function": function,
            "arguments": plain.dump(list(arguments)),
            "keywords": plain.dump({str(name): value for name, value in keywords.items()}),
        }
        words = {"timeout_s": timeout_s, **keywords}
        return self._kept("call", (function, *arguments), words, lambda: self._ask(work, timeout_s))

    def run(self, program: Program, *, stdin: Content = b"", timeout_s: float = 10.0) -> Result:
        """See `Session.run`."""
        given = as_bytes(stdin)
        words = {"stdin": given, "timeout_s": timeout_s}
        if not isinstance(program, str):
            program = list(program)
        return self._kept("run", (program,), words, lambda: self._run(program, given, timeout_s))

    def write(self, path: str, content: Content) -> None:
        """See `Session.write`."""
        relative(path)
        files = {path: as_bytes(content)}
        result = self._kept("write", (path, content), {}, lambda: self._run(None, b"", 5.0, files))
        if not result.ok:
            raise OSError(f"{path!r} could not be written: {result.stderr.strip() or result.status}")

    def read(self, path: str, max_bytes: int = 1 << 20) -> bytes:
        """See `Session.read`."""
        relative(path)
        with self._lock:
            self._check()
            folder = self._folder()
            try:
                return read_file(folder, path, max_bytes)
            finally:
                os.close(folder)

    def fork(self) -> LocalSession:
        """See `Session.fork`. Raises ReplayDiverged where a step ended otherwise than it had."""
        with self._lock:
            self._check()
            twin = self._again()
            try:
                for number, step in enumerate(self._steps):
                    getattr(twin, step.method)(*step.arguments, **step.words)
                    found = twin._steps[number].status
                    if found != step.status:
                        raise ReplayDiverged(f"step {number + 1}, a {step.method}, was {step.status} and is {found}")
            except BaseException:
                twin.close()
                raise
            return twin

    def close(self) -> None:
        """See `Session.close`."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            if self._interpreter:
                self._interpreter.call.close()
            self.place.close()

    def __enter__(self) -> LocalSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check(self) -> None:
        if self._closed:
            raise SandboxClosed("the session is closed")

    def _kept(self, method: str, arguments: tuple, words: dict[str, Any], do: Callable[[], Result]) -> Result:
        """Do one step and keep it for forks."""
        with self._lock:
            self._check()
            if self._over is not None:
                return Result(Status.ENDED, stderr=f"the session had ended: {self._over}")
            try:
                result = do()
            except SandboxError:
                self._end(Status.ENDED)
                raise
            self._steps.append(Step(method, arguments, words, result.status))
            return result

    def _end(self, status: Status) -> None:
        """Nothing runs here any more."""
        self._over = status
        if self._interpreter:
            self._interpreter.call.close()
            self._interpreter = None
        self.place.close()

    def _run(
        self, program: Program | None, stdin: bytes, timeout_s: float, files: dict[str, bytes] | None = None
    ) -> Result:
        work = {"program": program, "files": files or {}, "env": {}}
        result = self.place.run(work, stdin, self.limits, timeout_s, fetch=(), once=False)
        return result

    def _folder(self) -> int:
        """A descriptor of the working directory, had from a process that does nothing."""
        key = self.place.new_key()
        with Call(self.place, self.limits, has_stdin=False) as call:
            call.start(key=key, cells=False, timeout_s=5.0, once=False, fetch=True)
            call.traffic.feed(call.channel, wires.packed({"program": None, "files": {}, "env": {}}))
            _, descriptors = self.place.until_end(call, key, time.monotonic() + 5.0 + LATE_S)
            return descriptors[0]

    def _ask(self, work: dict[str, Any], timeout_s: float) -> Result:
        if self._interpreter is None or not self._interpreter.is_idle():
            if self._interpreter is not None:  # it spoke, or ended, between two calls
                self._end(Status.GARBLED)
                return Result(Status.GARBLED, stderr="the interpreter spoke without being asked, or ended")
            self._interpreter = _Interpreter(self.place, self.limits)
        result = self._interpreter.ask(work, timeout_s)
        if not self._interpreter.is_alive:
            self._end(result.status)
        return result


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
        if not self.answers.startswith(wires.STARTED):
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
        self.traffic.feed(self.call.channel, wires.packed(work))
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
        wires.send(self.place.wire, {"do": what, "key": self.key, **words})

    def _is_answered(self) -> bool:
        if len(self.answers) < wires.HEADER.size:
            return False
        size = wires.HEADER.unpack_from(self.answers)[0]  # larger than may be: forged, and not to be waited for
        return len(self.answers) >= wires.HEADER.size + size or size > self.traffic.most

    def _result(self, began: float, *, is_watched: bool, is_late: bool) -> Result:
        self.traffic.settle()
        said = bytes(self.answers[wires.HEADER.size :])
        is_whole = len(said) == wires.HEADER.unpack_from(self.answers)[0]
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
        return Result(Status.OK, exit_code=0, value=None if value is None else plain.load(value))
    except plain.NotPlain as fault:
        return Result(Status.FAILED, exit_code=1, error=f"NotPlain: {fault}")
