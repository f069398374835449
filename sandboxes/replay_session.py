"""`ReplaySession`: a session over any backend, which makes calls one at a time, records them, and forks by replay.

What runs where is decided by a `SessionBackend`, of which each provider has its own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from sandboxes import json_values
from sandboxes.request import check_program, check_timeout
from sandboxes.types import (
    Content,
    Program,
    ReplayDiverged,
    Result,
    SandboxClosed,
    SandboxError,
    Status,
    as_bytes,
    relative_parts,
)

WRITE_TIMEOUT_S = 5.0  # for writing one file
MAX_REPLAY_BYTES = 16 << 20  # of all recorded arguments; a session that was given more cannot be forked


class SessionBackend(Protocol):
    """An interpreter and files that last, without a record of the calls. Used by one thread at a time."""

    def evaluate(self, work: dict[str, Any], timeout_s: float) -> tuple[Result, bool]:
        """Run a cell or call a function in the session's Python interpreter, in at most `timeout_s` seconds.

        For a cell `work` has "source", its text. For a call it has "function", the name, and "arguments" and
        "keywords", a list and a dict as texts of `json_values.dump`. Returns the result, and whether the session
        continues after it.
        """

    def run(
        self, program: Program | None, files: Mapping[str, bytes], stdin: bytes, timeout_s: float
    ) -> tuple[Result, bool]:
        """Write `files`, content by path, then run the program for at most `timeout_s` seconds; None only writes.

        `stdin` is the program's input. Returns the result, and whether the session continues after it. Raises OSError
        where the files cannot be written.
        """

    def read(self, path: str, max_bytes: int) -> bytes:
        """Return the content of a file. Raises FileNotFoundError, or OSError if it is over `max_bytes` bytes."""

    def kill(self) -> None:
        """Stop everything that runs, without waiting; may be called from any thread at any time."""

    def close(self) -> None:
        """Stop everything that runs and remove all files. May be called again."""


@dataclass(frozen=True, slots=True)
class Step:
    """One recorded call of a session: the method, its arguments, and the status that its replay must have."""

    method: str
    arguments: tuple[Any, ...]
    kwargs: dict[str, Any]
    status: Status | None


class ReplaySession:
    """See `sandboxes.Session`. Threads may share it; their calls run one after the other."""

    def __init__(self, backend: SessionBackend, reopen: Callable[[], ReplaySession]) -> None:
        """`reopen` opens a new, empty session with the same limits, for `fork`."""
        self.backend, self._reopen = backend, reopen
        self._lock = threading.RLock()
        self._steps: list[Step] | None = []  # None once they are more than MAX_REPLAY_BYTES
        self._replay_bytes = 0
        self._end_status: Status | None = None  # of the call that ended the session
        self._closed = False

    @property
    def alive(self) -> bool:
        """Whether another call would run."""
        return not self._closed and self._end_status is None

    def cell(self, source: str, *, timeout_s: float = 10.0) -> Result:
        """Run Python `source` in the session's interpreter, whose names last; see `Session.cell`."""
        kwargs = {"timeout_s": check_timeout(timeout_s)}
        work = {"source": source}
        return self._record("cell", (source,), kwargs, len(source), lambda: self._evaluate(work, timeout_s))

    def call(self, function: str, *arguments: object, timeout_s: float = 10.0, **keywords: object) -> Result:
        """Call a function that an earlier cell defined, with plain data; see `Session.call`."""
        work = {
            "function": function,
            "arguments": json_values.dump(list(arguments)),
            "keywords": json_values.dump({str(name): value for name, value in keywords.items()}),
        }
        kwargs = {"timeout_s": check_timeout(timeout_s), **keywords}
        size = len(work["arguments"]) + len(work["keywords"])
        return self._record("call", (function, *arguments), kwargs, size, lambda: self._evaluate(work, timeout_s))

    def run(self, program: Program, *, stdin: Content = b"", timeout_s: float = 10.0) -> Result:
        """Run a program in the session's folder; see `Session.run`."""
        content = as_bytes(stdin, "stdin")
        kwargs = {"stdin": content, "timeout_s": check_timeout(timeout_s)}
        program = check_program(program)
        size = len(content) + sum(map(len, program))
        return self._record("run", (program,), kwargs, size, lambda: self._run(program, {}, content, timeout_s))

    def write(self, path: str, content: Content) -> None:
        """Write a file in the session's folder; see `Session.write`."""
        relative_parts(path)
        files = {path: as_bytes(content)}
        size = len(files[path])
        result = self._record("write", (path, content), {}, size, lambda: self._run(None, files, b"", WRITE_TIMEOUT_S))
        if not result.ok:
            raise OSError(f"{path!r} could not be written: {result.stderr.strip() or result.status}")

    def read(self, path: str, max_bytes: int = 1 << 20) -> bytes:
        """Read a file in the session's folder; see `Session.read`."""
        relative_parts(path)
        with self._lock:
            self._check_open()
            if self._end_status is not None:
                raise OSError(f"{path!r} cannot be read: the session had ended: {self._end_status}")
            try:
                return self.backend.read(path, max_bytes)
            except SandboxError:
                self._end(Status.ENDED)
                raise

    def fork(self) -> ReplaySession:
        """Open a new session and make all calls of this one again in it; see `Session.fork`.

        Raises ReplayDiverged where a call ends with another status than the original, and SandboxError where more
        than `MAX_REPLAY_BYTES` would have to be replayed.
        """
        with self._lock:
            self._check_open()
            if self._steps is None:
                limit_mb = MAX_REPLAY_BYTES >> 20
                raise SandboxError(f"no fork: more than {limit_mb} MiB of arguments would have to be replayed")
            twin = self._reopen()
            try:
                for number, step in enumerate(self._steps):
                    getattr(twin, step.method)(*step.arguments, **step.kwargs)
                    status = (twin._steps or [])[number].status
                    if status != step.status:
                        raise ReplayDiverged(f"step {number + 1}, a {step.method}, was {step.status} and is {status}")
            except BaseException:
                twin.close()
                raise
            return twin

    def close(self) -> None:
        """End the session and everything in it; see `Session.close`."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self.backend.close()

    def __enter__(self) -> ReplaySession:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_open(self) -> None:
        if self._closed:
            raise SandboxClosed("the session is closed")

    def _record(
        self, method: str, arguments: tuple, kwargs: dict[str, Any], size: int, make: Callable[[], Result]
    ) -> Result:
        """Make one call and record it for forks, unless the record is over its limit of bytes."""
        with self._lock:
            self._check_open()
            if self._end_status is not None:
                return Result(Status.ENDED, stderr=f"the session had ended: {self._end_status}")
            try:
                result = make()
            except SandboxError:
                self._end(Status.ENDED)
                raise
            self._replay_bytes += size
            if self._replay_bytes > MAX_REPLAY_BYTES:
                self._steps = None
            if self._steps is not None:
                self._steps.append(Step(method, arguments, kwargs, result.status))
            return result

    def _evaluate(self, work: dict[str, Any], timeout_s: float) -> Result:
        return self._end_unless(*self.backend.evaluate(work, timeout_s))

    def _run(self, program: Program | None, files: Mapping[str, bytes], stdin: bytes, timeout_s: float) -> Result:
        return self._end_unless(*self.backend.run(program, files, stdin, timeout_s))

    def _end_unless(self, result: Result, continues: bool) -> Result:
        if not continues:
            self._end(result.status)
        return result

    def _end(self, status: Status) -> None:
        """End the session: nothing runs in it from now on."""
        self._end_status = status
        self.backend.close()
