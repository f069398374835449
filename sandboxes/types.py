"""Values that sandboxes take and return: limits, results, statuses, isolation and errors.

Three kinds of failure are kept apart:
- what the program did (it raised, hung or used too much memory) is a `Result` with a `Status`;
- a fault of the sandbox itself is a `SandboxError`, which is never a `Result` and must never be scored;
- a mistake of the caller (a path outside the working directory, a negative limit) is a `ValueError`.

Imports no other module of this project. The protocols of sandboxes and sessions are in `sandboxes.provider`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import PurePosixPath

Program = str | Sequence[str]  # the source of a Python program, or the words of a command
Content = str | bytes  # text is written as UTF-8
MAX_LIMIT = 1 << 31  # of every field of `Limits`


class Status(StrEnum):
    """How a call ended. Every status but `OK` is caused by the program that ran."""

    OK = "ok"  # exit code 0; for a cell or a function call: nothing was raised
    FAILED = "failed"  # another exit code, or an exception
    SIGNAL = "signal"  # ended by a signal that the sandbox did not send
    TIMEOUT = "timeout"  # the wall time `timeout_s` was over
    CPU_LIMIT = "cpu_limit"
    MEMORY_LIMIT = "memory_limit"
    OUTPUT_LIMIT = "output_limit"
    GARBLED = "garbled"  # the program wrote to the sandbox's own channel
    ENDED = "ended"  # nothing ran, because an earlier call had ended the session


@dataclass(frozen=True, slots=True)
class Limits:
    """What one stateless call, or one session, may use.

    Over `cpu_s`, `memory_mb` or `output_kb` a call ends with the status of that name; a program that asks for more than
    `memory_mb` at once is refused by the system, in Python a MemoryError, and may continue. Over `processes`, `disk_mb`
    or `files` the program gets the system's own error (EAGAIN, ENOSPC) and may continue; where the kernel cannot count
    files, as in the weaker tiers of `local`, the call ends with SIGNAL and SIGXFSZ.

    Raises ValueError for a limit that is not a number above 0 and at most `MAX_LIMIT`, whole except for `cpu_s`. A
    sandbox refuses sizes beyond the memory of its machine in the same way.
    """

    cpu_s: float = 30.0  # CPU seconds of all processes together; in a session: per cell or run
    memory_mb: int = 512  # MiB of all processes together, without what was in use before the call started; where the
    # kernel counts files in memory too (`local`, `docker`), processes and files share the sum of both limits
    processes: int = 64  # threads count
    disk_mb: int = 64  # MiB of all files together, which are held in memory
    files: int = 4096
    output_kb: int = 1024  # KiB of stdout and of stderr, each

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value, types = getattr(self, name), (int, float) if name == "cpu_s" else (int,)
            if type(value) not in types or not 0 < value <= MAX_LIMIT:
                whole = "whole " * (len(types) == 1)
                raise ValueError(f"limit {name} = {value!r:.40}: must be a {whole}number above 0, at most {MAX_LIMIT}")


@dataclass(frozen=True, slots=True)
class Result:
    """Outcome of one program, cell or function call.

    Attributes:
        status: How it ended.
        exit_code: None unless the program ended by itself; 1 after an exception, also in cells and function calls.
        signal: Number of the signal that ended the program, else None.
        stdout: At most `Limits.output_kb`; bytes that are not UTF-8 are replaced.
        stderr: The same for stderr, tracebacks included.
        files: Content by path of those files of the `fetch` list that could be read.
        unread: Reason by path for each other file of the `fetch` list.
        value: What a `Session.call` returned, as plain data; None for everything else.
        error: Exception of a cell or call that raised, such as "ZeroDivisionError: division by zero", else "".
        wall_s: Wall time in seconds.
        cpu_s: CPU time in seconds of all processes together.
        memory_mb: Peak MiB of the program's first process.
    """

    status: Status
    exit_code: int | None = None
    signal: int | None = None
    stdout: str = ""
    stderr: str = ""
    files: Mapping[str, bytes] = field(default_factory=dict)
    unread: Mapping[str, str] = field(default_factory=dict)
    value: object = None
    error: str = ""
    wall_s: float = 0.0
    cpu_s: float = 0.0
    memory_mb: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether the program ended normally. It proves nothing about what the program computed."""
        return self.status is Status.OK


@dataclass(frozen=True, slots=True)
class Isolation:
    """How strong a sandbox is, for people (`covered`, `uncovered`) and for code (the other fields).

    Attributes:
        tier: Short name, such as "namespaces" or "container".
        covered: Sentences that say what programs are kept from.
        uncovered: Sentences that say what they are not kept from.
        memory: Who measures memory: "cgroup", the kernel, at once; "watch", a poll every few milliseconds;
            "process", a limit for each process.
        children: Whether programs may start processes. Without, the conformance suite skips what needs them.
        sessions: Whether `Sandbox.session` works. Without, the conformance suite skips sessions.
        protects: Whether it protects the machine at all. Without, the conformance suite skips everything that attacks
            the machine or exceeds a limit.
    """

    tier: str
    covered: tuple[str, ...]
    uncovered: tuple[str, ...]
    memory: str
    children: bool = True
    sessions: bool = True
    protects: bool = True


class SandboxError(RuntimeError):
    """A fault of the sandbox. Retry, then drop the episode; it is never a verdict about the program."""


class SandboxUnavailable(SandboxError):
    """This machine cannot provide the sandbox; the message names what is missing."""


class SandboxDied(SandboxError):
    """The sandbox went away during a call."""


class SandboxBusy(SandboxError):
    """No place became free in time. A place is one process tree that runs one program at a time."""


class SandboxClosed(SandboxError):
    """The sandbox or session was used after `close`."""


class ReplayDiverged(SandboxError):
    """The replay behind `Session.fork` ended differently from the original: its code depends on time or chance."""


def relative_parts(path: str) -> tuple[str, ...]:
    """Split a relative path inside the working directory: "a/b.txt" is ("a", "b.txt").

    Raises ValueError for a path that is empty, absolute, contains ".." or a null character, or is no UTF-8.
    """
    if not isinstance(path, str):
        raise ValueError(f"path {path!r:.80}: must be a str, not {type(path).__name__}")
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or ".." in parts or "\0" in path:
        raise ValueError(f"path {path!r}: must be relative, and stay inside the working directory")
    path.encode()  # UnicodeEncodeError is a ValueError
    return parts


def as_bytes(content: Content, name: str = "content") -> bytes:
    """Return text encoded as UTF-8, and bytes unchanged.

    Raises ValueError, with `name`, for any other type, and for text that UTF-8 cannot hold.
    """
    if isinstance(content, str):
        try:
            return content.encode()
        except UnicodeEncodeError as error:
            character = content[error.start]
            place = f"character {error.start}, {character!r}"
            raise ValueError(f"{name}: {place}, cannot be written as UTF-8; pass bytes instead") from None
    if not isinstance(content, (bytes, bytearray, memoryview)):
        raise ValueError(f"{name} = {content!r:.40}: must be a str or bytes, not {type(content).__name__}")
    return bytes(content)
