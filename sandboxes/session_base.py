"""A session as its user sees it: one call at a time, an end that is remembered, and forks by doing all of it again.

What runs where is the business of a `Room`: each provider has its own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from sandboxes import json_values
from sandboxes.request import deadline
from sandboxes.types import (
    Content,
    Program,
    ReplayDiverged,
    Result,
    SandboxClosed,
    SandboxError,
    Status,
    as_bytes,
    relative,
)

WRITE_S = 5.0  # for a file to be written
REMEMBERED = 16 << 20  # bytes of what was done in a session, beyond which it cannot be forked


class Room(Protocol):
    """A place that lasts, without memory of what was done in it. Used by one thread at a time."""

    def ask(self, work: dict[str, Any], timeout_s: float) -> tuple[Result, bool]:
        """Have the interpreter run a cell ("source"), or make a call; and whether the session can go on after it."""

    def run(self, program: Program | None, files: Mapping[str, bytes], stdin: bytes, timeout_s: float) -> Result:
        """Write the files, then run the program, if there is one. OSError where the files do not fit."""

    def read(self, path: str, max_bytes: int) -> bytes:
        """A file's content. FileNotFoundError, or OSError."""

    def kill(self) -> None:
        """Stop what runs, without waiting; from any thread, at any time."""

    def close(self) -> None:
        """Stop all that runs and remove all files. Any number of times."""


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that was done in a session, to be done again by a fork."""

    method: str
    arguments: tuple[Any, ...]
    words: dict[str, Any]
    status: Status | None


class KeptSession:
    """See `sandboxes.types.Session`. Threads may share it; they wait for each other."""

    def __init__(self, room: Room, again: Callable[[], KeptSession]) -> None:
        """`again` opens a fresh session of the same kind."""
        self.room, self._again = room, again
        self._lock = threading.RLock()
        self._steps: list[Step] | None = []
        self._remembered = 0
        self._over: Status | None = None
        self._closed = False

    @property
    def alive(self) -> bool:
        """Whether another call would run."""
        return not self._closed and self._over is None

    def cell(self, source: str, *, timeout_s: float = 10.0) -> Result:
        """See `Session.cell`."""
        words = {"timeout_s": deadline(timeout_s)}
        return self._kept("cell", (source,), words, len(source), lambda: self._ask({"source": source}, timeout_s))

    def call(self, function: str, *arguments: object, timeout_s: float = 10.0, **keywords: object) -> Result:
        """See `Session.call`."""
        work = {
            "function": function,
            "arguments": json_values.dump(list(arguments)),
            "keywords": json_values.dump({str(name): value for name, value in keywords.items()}),
        }
        words = {"timeout_s": deadline(timeout_s), **keywords}
        size = len(work["arguments"]) + len(work["keywords"])
        return self._kept("call", (function, *arguments), words, size, lambda: self._ask(work, timeout_s))

    def run(self, program: Program, *, stdin: Content = b"", timeout_s: float = 10.0) -> Result:
        """See `Session.run`."""
        given = as_bytes(stdin)
        words = {"stdin": given, "timeout_s": deadline(timeout_s)}
        if not isinstance(program, str):
            program = list(program)
        size = len(given) + sum(map(len, program))
        return self._kept("run", (program,), words, size, lambda: self.room.run(program, {}, given, timeout_s))

    def write(self, path: str, content: Content) -> None:
        """See `Session.write`."""
        relative(path)
        files = {path: as_bytes(content)}
        size = len(files[path])
        result = self._kept("write", (path, content), {}, size, lambda: self.room.run(None, files, b"", WRITE_S))
        if not result.ok:
            raise OSError(f"{path!r} could not be written: {result.stderr.strip() or result.status}")

    def read(self, path: str, max_bytes: int = 1 << 20) -> bytes:
        """See `Session.read`."""
        relative(path)
        with self._lock:
            self._check()
            return self.room.read(path, max_bytes)

    def fork(self) -> KeptSession:
        """See `Session.fork`. Raises ReplayDiverged where a step ended otherwise than it had.

        Raises SandboxError where more was given to the session than is remembered.
        """
        with self._lock:
            self._check()
            if self._steps is None:
                raise SandboxError(f"no fork: more than {REMEMBERED >> 20} MiB were given to this session to do again")
            twin = self._again()
            try:
                for number, step in enumerate(self._steps):
                    getattr(twin, step.method)(*step.arguments, **step.words)
                    found = (twin._steps or [])[number].status
                    if found != step.status:
                        raise ReplayDiverged(f"step {number + 1}, a {step.method}, was {step.status} and is {found}")
            except BaseException:
                twin.close()
                raise
            return twin

    def close(self) -> None:
        """See `Session.close`."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self.room.close()

    def __enter__(self) -> KeptSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check(self) -> None:
        if self._closed:
            raise SandboxClosed("the session is closed")

    def _kept(
        self, method: str, arguments: tuple, words: dict[str, Any], size: int, do: Callable[[], Result]
    ) -> Result:
        """Do one step and keep it for forks, as long as all of them are not too large."""
        with self._lock:
            self._check()
            if self._over is not None:
                return Result(Status.ENDED, stderr=f"the session had ended: {self._over}")
            try:
                result = do()
            except SandboxError:
                self._end(Status.ENDED)
                raise
            self._remembered += size
            if self._remembered > REMEMBERED:
                self._steps = None
            if self._steps is not None:
                self._steps.append(Step(method, arguments, words, result.status))
            return result

    def _ask(self, work: dict[str, Any], timeout_s: float) -> Result:
        result, goes_on = self.room.ask(work, timeout_s)
        if not goes_on:
            self._end(result.status)
        return result

    def _end(self, status: Status) -> None:
        """Nothing runs here any more."""
        self._over = status
        self.room.close()
