"""What a sandbox is, takes and answers. Imports none of ours.

Three kinds of failure, kept apart:
- the candidate's fault (it raised, it hung, it filled its memory) is a `Result` with a `Status`;
- a fault of ours is a `SandboxError`, never a `Result` and never to be scored;
- a mistake of the caller (a path outside, a negative limit) is a `ValueError`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Protocol, runtime_checkable

Program = str | Sequence[str]  # the text of a Python program, or the words of a command
Content = str | bytes  # text is written as UTF-8


class Status(StrEnum):
    """How a call ended. All but `OK` are the doing of the program that ran."""

    OK = "ok"  # exit code 0; of a cell or a call: nothing was raised
    FAILED = "failed"  # another exit code, or an exception
    SIGNAL = "signal"  # died of a signal that was not ours
    TIMEOUT = "timeout"  # `timeout_s` of wall time were over
    CPU_LIMIT = "cpu_limit"
    MEMORY_LIMIT = "memory_limit"
    OUTPUT_LIMIT = "output_limit"
    GARBLED = "garbled"  # the program spoke on the sandbox's own channel
    ENDED = "ended"  # nothing ran: an earlier call had ended the session


@dataclass(frozen=True, slots=True)
class Limits:
    """What one stateless call, or one session, may use. Whoever asks for more is stopped, or told so by the system.

    Over `cpu_s`, `memory_mb` or `output_kb` a call ends with the status of that name. Over `processes`, `disk_mb` or
    `files` the program meets the system's own error (EAGAIN, ENOSPC), and may go on.
    """

    cpu_s: float = 30.0  # of all processes together; in a session: per cell or run
    memory_mb: int = 512  # of all processes together, what was there before a call started not counted
    processes: int = 64  # threads count
    disk_mb: int = 64  # of all files together, in memory
    files: int = 4096
    output_kb: int = 1024  # of stdout and of stderr, each

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if not getattr(self, name) > 0:
                raise ValueError(f"limit {name} = {getattr(self, name)!r}: must be more than 0")


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one program, cell or call.

    `exit_code` is None unless the program ended by itself: 1 after an exception, cells and calls included. `signal` is
    the number of the signal it died of. Bytes that are no UTF-8 are replaced in `stdout` and `stderr`. `files` holds
    those of the `fetch` list that could be read, `unread` says why for each other. `value` is what a `Session.call`
    returned, as plain data. `memory_mb` is the peak of the program's first process.
    """

    status: Status
    exit_code: int | None = None
    signal: int | None = None
    stdout: str = ""
    stderr: str = ""
    files: Mapping[str, bytes] = field(default_factory=dict)
    unread: Mapping[str, str] = field(default_factory=dict)
    value: object = None
    error: str = ""  # of a cell or a call that raised: "ZeroDivisionError: division by zero"
    wall_s: float = 0.0
    cpu_s: float = 0.0
    memory_mb: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether the program ended as it should. It proves nothing about what the program computed."""
        return self.status is Status.OK


@dataclass(frozen=True, slots=True)
class Shelter:
    """How strong a sandbox is: `covered` and `uncovered` are sentences for people, `memory` says who counts it."""

    tier: str
    covered: tuple[str, ...]
    uncovered: tuple[str, ...]
    memory: str  # "cgroup": by the kernel, at once; "watch": by a look every few milliseconds; "process": each process
    children: bool = True  # whether programs may start processes


class SandboxError(RuntimeError):
    """A fault of ours. Try again, then leave the episode out; never read it as a verdict."""


class SandboxUnavailable(SandboxError):
    """This machine cannot give the sandbox that was asked for; the text names what is missing."""


class SandboxDied(SandboxError):
    """The sandbox went away in the middle of a call."""


class SandboxBusy(SandboxError):
    """No place became free in time."""


class SandboxClosed(SandboxError):
    """It was used after `close`."""


class ReplayDiverged(SandboxError):
    """A fork's replay did not end as the original had: what ran there depends on time or luck."""


@runtime_checkable
class Session(Protocol):
    """A place that lasts: files, and the state of a Python interpreter, kept between calls. One call at a time."""

    @property
    def alive(self) -> bool:
        """False after `close`, or once a limit or the code itself has ended the session."""

    def cell(self, source: str, *, timeout_s: float = 10.0) -> Result:
        """Run Python in the interpreter. A last expression is printed as a notebook does.

        At the deadline it is interrupted (`TIMEOUT`, state kept), and where it goes on, the session ends.
        """

    def call(self, function: str, *arguments: object, timeout_s: float = 10.0, **keywords: object) -> Result:
        """Call a function that an earlier cell defined; its `value` is read as plain data, nothing of it is executed.

        Plain data: None, bool, int, float, complex, str, bytes, list, tuple, dict, set, frozenset. Another value, or
        one that is too large, is `FAILED`.
        """

    def run(self, program: Program, *, stdin: Content = b"", timeout_s: float = 10.0) -> Result:
        """Run a program of its own beside the interpreter, on the same files."""

    def write(self, path: str, content: Content) -> None:
        """Write a file. OSError where it does not fit."""

    def read(self, path: str, max_bytes: int = 1 << 20) -> bytes:
        """A file's content. FileNotFoundError, or OSError for what is no plain file or larger than `max_bytes`."""

    def fork(self) -> Session:
        """A second session in the same state, made by doing again all that was done here."""

    def close(self) -> None:
        """Stop all that runs and remove all files."""


@runtime_checkable
class Sandbox(Protocol):
    """Runs programs that nobody trusts. Threads may share it."""

    @property
    def shelter(self) -> Shelter:
        """What it protects against."""

    def run(
        self,
        program: Program,
        *,
        stdin: Content = b"",
        files: Mapping[str, Content] | None = None,
        fetch: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        timeout_s: float = 10.0,
        limits: Limits | None = None,
    ) -> Result:
        """Run a program in a fresh place that nothing outlives.

        `files` are put into its working directory, those of `fetch` are read from there after its end, however it
        ended. Paths are relative.
        """

    def session(self, *, limits: Limits | None = None) -> Session:
        """Open a place that lasts."""

    def close(self) -> None:
        """Stop every process and remove every file, sessions included."""

    def __enter__(self) -> Sandbox: ...

    def __exit__(self, *_: object) -> None: ...


def relative(path: str) -> tuple[str, ...]:
    """The parts of a path inside the working directory. ValueError for any other."""
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or ".." in parts or "\0" in path:
        raise ValueError(f"path {path!r}: must be relative, and stay inside the working directory")
    return parts


def as_bytes(content: Content) -> bytes:
    """Text as UTF-8, bytes as they are."""
    return content.encode() if isinstance(content, str) else bytes(content)
