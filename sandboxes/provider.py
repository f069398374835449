"""The contract of a sandbox provider: the protocols `Sandbox` and `Session`.

`sandboxes.open` opens any class with the members of `Sandbox`. Subclassing the protocols is optional; it gives the
context manager for free and lets type checkers compare signatures. `sandboxes.checks` is the conformance suite: each
member below names the modules of it that test the member. `sandboxes.request.RunRequest.create` checks the arguments
of `run` as the built-in providers do.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Protocol, Self, runtime_checkable

from sandboxes.types import Content, Isolation, Limits, Program, Result

SANDBOX_METHODS = ("run", "session", "close", "__enter__", "__exit__")  # what a provider's class must define


@runtime_checkable
class Session(Protocol):
    """Files and the state of a Python interpreter that last from call to call.

    Threads may share a session: their calls run one after the other. Every call but `read` and `write` returns a
    `Result`, also for the worst program, and also where an earlier one has ruined the session: a working directory that
    was removed is there again, empty; a program that cannot be started is FAILED with exit code 126; an interpreter
    that cannot be started ends the session. After the session has ended (see `alive`) calls return `Status.ENDED`
    without running anything, `read` and `write` raise OSError; after `close` all raise SandboxClosed. Any call may
    raise SandboxError for a fault of the sandbox; the session has then ended. Tested by `checks.sessions` and
    `checks.ruins`.
    """

    @property
    @abstractmethod
    def alive(self) -> bool:
        """Whether another call would run: False after `close` and once a limit or the code has ended the session."""

    @abstractmethod
    def cell(self, source: str, *, timeout_s: float = 10.0) -> Result:
        """Run Python source in the interpreter, whose names last; a last expression is printed as a notebook does.

        At the deadline the cell is interrupted: status TIMEOUT, and the session continues with its state. Where code
        cannot be interrupted, the session ends within a second.

        Args:
            source: Any text; a syntax error is FAILED.
            timeout_s: Wall time in seconds, above 0 and at most a day.

        Returns:
            OK, FAILED (`error` and the traceback in `stderr`), SIGNAL, TIMEOUT, CPU_LIMIT, MEMORY_LIMIT, OUTPUT_LIMIT,
            GARBLED or ENDED. `stdout` and `stderr` are those of this cell.

        Raises:
            ValueError: `timeout_s` is out of range.
        """

    @abstractmethod
    def call(self, function: str, *arguments: object, timeout_s: float = 10.0, **keywords: object) -> Result:
        """Call a function that an earlier cell defined, and return its value in `Result.value`.

        Arguments and value cross as plain data (None, bool, int, float, complex, str, bytes, list, tuple, dict, set,
        frozenset), so that nothing of the value is executed by the host. A value of another type, of a subclass, or too
        large, is FAILED.

        Args:
            function: Name of the function.
            arguments: Its positional arguments.
            timeout_s: Wall time in seconds, as for `cell`.
            keywords: Its keyword arguments; "timeout_s" cannot be one.

        Returns:
            The statuses of `cell`.

        Raises:
            ValueError: `timeout_s` is out of range, or an argument is not plain data.
        """

    @abstractmethod
    def run(self, program: Program, *, stdin: Content = b"", timeout_s: float = 10.0) -> Result:
        """Run a program in a process of its own beside the interpreter, in the same working directory.

        Arguments, statuses and errors are those of `Sandbox.run`, and ENDED. A program over its deadline or limit ends
        alone; background processes that it leaves live as long as the session.
        """

    @abstractmethod
    def write(self, path: str, content: Content) -> None:
        """Write a file; parent folders are created.

        Raises:
            ValueError: `path` is absolute or leads out of the working directory.
            OSError: The file does not fit into the limits, programs have put something else in its place, or the
                session has ended.
        """

    @abstractmethod
    def read(self, path: str, max_bytes: int = 1 << 20) -> bytes:
        """Return the content of a file. Links are not followed, and pipes are not waited for.

        Raises:
            ValueError: `path` is absolute or leads out of the working directory.
            FileNotFoundError: There is no such file.
            OSError: It is not a regular file, larger than `max_bytes`, or the session has ended.
        """

    @abstractmethod
    def fork(self) -> Session:
        """Open a second session in the same state, independent from then on.

        It is enough to make all calls of this session again in a new one, which takes as long as they took.

        Raises:
            ReplayDiverged: A replayed call ended with another status than the original.
            SandboxError: The calls cannot be replayed.
        """

    @abstractmethod
    def close(self) -> None:
        """End all processes of the session and remove its files. May be called again, from any thread."""


@runtime_checkable
class Sandbox(Protocol):
    """Runs untrusted programs. Threads may share a sandbox and call every member at the same time.

    `places` is an optional attribute: how many programs run at once. A provider that queues calls by itself has it, and
    `python -m sandboxes serve` uses it as its own default. A place is one process tree that runs one program at a time.
    """

    def __init__(self) -> None:
        """Open the sandbox; most providers replace this by a constructor with options of their own.

        `sandboxes.open("name:kind", option=value)` passes the kind as the only positional argument, if there is one,
        and options by keyword.

        Raises:
            ValueError: An option has a wrong value.
            SandboxUnavailable: The machine lacks something; the message is one line that names it.
        """

    @property
    @abstractmethod
    def isolation(self) -> Isolation:
        """What programs are kept from. A class attribute will do. It is constant while the sandbox is open.

        Its flags decide which behaviours of the conformance suite apply.
        """

    @abstractmethod
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
        """Run a program in a new, empty working directory; no process, file or memory of it outlives the call.

        Whatever the program does to the place it runs in is a `Result`; such a place is replaced. Tested by
        `checks.programs` (what programs can do), `checks.files`, `checks.limits`, `checks.isolation`, `checks.ruins`.

        Args:
            program: Source of a Python program, run as `__main__`, or the words of a command, run without a shell.
            stdin: Everything that the program can read from stdin.
            files: Content by relative path; parent folders are created.
            fetch: Relative paths of files that are read after the program's end, however it ended. Links are not
                followed. None of them is a fault: what cannot be read is in `Result.unread`.
            env: Variables in addition to a minimal environment; none of the host's own are visible.
            timeout_s: Wall time in seconds, above 0 and at most a day. The call returns within a second after it.
            limits: What the program may use; None is `Limits()`.

        Returns:
            OK, FAILED, SIGNAL, TIMEOUT, CPU_LIMIT, MEMORY_LIMIT or OUTPUT_LIMIT. `stdout` and `stderr` hold what was
            printed until the end. A command that does not exist is FAILED with exit code 127.

        Raises:
            ValueError: `timeout_s` is out of range, a path leads out, `program` is neither text nor words, or `limits`
                has a size that is larger than the memory of the machine.
            OSError: `files` do not fit into `limits`, or one of them is a folder of another.
            SandboxBusy: No place became free in time.
            SandboxClosed: After `close`.
            SandboxDied: The sandbox failed during the call. A provider may retry once before it raises.
        """

    @abstractmethod
    def session(self, *, limits: Limits | None = None) -> Session:
        """Open a session with these limits. Tested by `checks.sessions`.

        Raises:
            SandboxUnavailable: The provider has no sessions; `isolation.sessions` is then False.
            SandboxClosed: After `close`.
        """

    @abstractmethod
    def close(self) -> None:
        """End every process and remove every file, those of open sessions included. May be called again.

        Must work while other threads wait in calls, which then raise SandboxClosed or SandboxDied.
        """

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
