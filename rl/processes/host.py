"""Where the processes beside a run are started: on this machine, or by actors on the nodes of a cluster."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import IO, Any, NamedTuple, Protocol

_BOOT = (
    "import sys, json; from importlib import import_module; sys.path[:] = json.loads(sys.argv[1]);"
    "import_module(sys.argv[2]).main(*map(json.loads, sys.argv[3:]))"
)


class Process(Protocol):
    """A process that a host has started, with the methods of `subprocess.Popen` that a run needs.

    Attributes:
        pid: Process id on its machine; 0 before it is known.
        stdout: What it prints, and its errors.
        is_up: False while its machine is still to be found, for which the host has a deadline of its own.
        fault: Why the process is gone for a reason that it has no part in, such as the end of its machine; "" for none.
        is_refused: Whether no other process of the kind would be started either.
        node: Address of its machine; "" for this one, and before it is known.
        home: Folder there that the paths of its files begin in; "" for paths that are whole, and before it is known.
    """

    pid: int
    stdout: IO[bytes] | None
    is_up: bool
    fault: str
    is_refused: bool
    node: str
    home: str

    def poll(self) -> int | None:
        """Return the exit code, None for a process that lives."""

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the exit code. Raises `subprocess.TimeoutExpired`."""

    def kill(self) -> None:
        """End the process at once."""

    def describe(self) -> str:
        """Return which process it is: its number and, on another machine, that."""

    def send_file(self, path: str, name: str = "") -> str:
        """Let the process have a file and return its path there, for messages that are sent from now on.

        On another machine it is called `name`, which may begin with a folder, by default as here.
        """

    def drop_file(self, path: str) -> None:
        """Note that the process needs a file no longer; `path` is what `send_file` has returned."""

    def fetch_file(self, name: str, folder: str) -> str:
        """Return the path, in the run's `folder`, of a file that the process has written into its own folder.

        The process needs it no longer; whoever asks deletes it. Raises `OSError` if the process is gone or there is no
        such file.
        """


class Place(NamedTuple):
    """Where a process is started, and what it needs there: see `Host.start`."""

    host: Host
    gpus: int = 0
    file_bytes: int = 0


class Host(Protocol):
    """Starts processes.

    Attributes:
        is_far: Whether they may be on other machines.
    """

    is_far: bool

    def start(
        self,
        name: str,
        module: str,
        arguments: Sequence[object],
        environment: Mapping[str, str],
        *,
        gpus: int = 0,
        file_bytes: int = 0,
    ) -> tuple[socket.socket, Any]:
        """Start the `main` of `module` in a process of its own session; return the socket to it, and the process.

        Args:
            name: Names it in messages.
            module: Its module.
            arguments: Of `main`, behind the descriptor of its end of the socket and the id of its parent. They are
                sent as JSON.
            environment: Added to this process's, where it is on this machine.
            gpus: GPUs that it needs to itself, where the host gives them out.
            file_bytes: Bytes of the files that `Process.send_file` will give it.
        """

    def home(self, folder: str) -> str:
        """Return the argument by which a process is told the folder that its files are in; `folder` is the run's."""

    def reserve(self, count: int, *, gpus: int = 0) -> Host:
        """Return a host with room for `count` processes, near to each other, that have so many GPUs each.

        They are all that it starts. Raises `ValueError` if there is no such room in time.
        """

    def release(self) -> None:
        """Give back what was reserved for this host, whose processes have ended."""


class LocalProcess(subprocess.Popen[bytes]):
    """A process on this machine, as `Process` says."""

    is_up, fault, is_refused, node, home = True, "", False, "", ""

    def describe(self) -> str:
        """See `Process`."""
        return f"process {self.pid}"

    def send_file(self, path: str, name: str = "") -> str:
        """See `Process`: files are shared."""
        return path

    def drop_file(self, path: str) -> None:
        """See `Process`: whoever wrote a file deletes it."""

    def fetch_file(self, name: str, folder: str) -> str:
        """See `Process`: the folder is the same."""
        return os.path.join(folder, name)


class LocalHost:
    """This machine, as `Host` says."""

    is_far = False

    def start(
        self,
        name: str,
        module: str,
        arguments: Sequence[object],
        environment: Mapping[str, str],
        *,
        gpus: int = 0,
        file_bytes: int = 0,
    ) -> tuple[socket.socket, LocalProcess]:
        """See `Host`."""
        own_end, child_end = socket.socketpair()
        words = map(json.dumps, (child_end.fileno(), os.getpid(), *arguments))
        with child_end:
            process = LocalProcess(
                [
                    *(sys.executable, *(f"-W{option}" for option in sys.warnoptions)),
                    *("-c", _BOOT, json.dumps(sys.path), module, *words),
                ],
                pass_fds=(child_end.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env={**os.environ, **environment} if environment else None,
                start_new_session=True,
            )
        return own_end, process

    def home(self, folder: str) -> str:
        """See `Host`."""
        return folder

    def reserve(self, count: int, *, gpus: int = 0) -> LocalHost:
        """See `Host`: nothing is given out here."""
        return self

    def release(self) -> None:
        """See `Host`."""


LOCAL = LocalHost()
HERE = Place(LOCAL)


def open_host(cluster: str) -> Host:
    """Return this machine for "", else the cluster at an address, to which the run has connected before."""
    if not cluster:
        return LOCAL
    from rl.processes.cluster.connection import connection  # imports Ray

    return connection(cluster)
