"""The actor that holds one process on a node: it starts it, and passes on what it and its run say to each other."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from rl.processes.cluster.nodes import Needs, missing
from rl.processes.host import LOCAL
from rl.processes.shared_folder import make_folder
from sandboxes.source_files import SOURCES_VARIABLE

CHUNK = 1 << 20
MOST_BYTES = 64 << 20  # that wait for the run; then the process waits too
MAX_LINE = 2000  # bytes of a line of output
MOST_LINES = 1000
HOME = "\0home"  # an argument in whose place the process gets the folder of its files
DRAIN_S = 1.0  # after the process's end, for what its children still print


class Order(NamedTuple):
    """Which process to start: the arguments of `rl.processes.host.Host.start`, and what it needs.

    `variables` are those of the run's environment, `file_bytes` the size of its files, and `sources` what
    `sandboxes.source_files.loaded_sources` returns in the run.
    """

    module: str
    arguments: Sequence[object]
    environment: Mapping[str, str]
    variables: Mapping[str, str]
    needs: Needs
    file_bytes: int
    sources: Mapping[str, tuple[str, str]]


class Started(NamedTuple):
    """A process that has started on a node, and the folder of its files.

    With `refusal` it was not started, and will be on no such node.
    """

    node: str
    pid: int = 0
    home: str = ""
    refusal: str = ""


class News(NamedTuple):
    """What there is from the process since the last time: bytes on its socket, lines of output, its exit code."""

    data: bytes
    lines: Sequence[bytes]
    code: int | None


class Keeper:
    """One process. Its methods are called by several threads; what the run sends is numbered, from 0.

    The process notices that its parent is gone, as it would on the run's machine, so it ends with the actor.
    """

    def __init__(self) -> None:
        self._change = threading.Condition()
        self._data, self._lines = bytearray(), list[bytes]()
        self._code: int | None = None
        self._inbox: dict[int, Any] = {}  # by number; what has come before its turn
        self._next, self._has_started, self._lock = 0, False, threading.Lock()
        self._home = ""
        self._socket: socket.socket
        self._process: subprocess.Popen[bytes]

    def start(self, order: Order) -> Started:
        """Start the process, unless this node lacks something."""
        import ray  # which is there, since it calls this

        node = ray.util.get_node_ip_address()
        if lack := missing(order.needs):
            return Started(node, refusal=lack)
        self._home = make_folder(order.file_bytes)
        arguments = [self._home if argument == HOME else argument for argument in order.arguments]
        sources = Path(self._home) / "sources.json"
        sources.write_text(json.dumps(order.sources), encoding="utf-8")
        environment = {**order.variables, **order.environment, SOURCES_VARIABLE: str(sources)}
        self._socket, self._process = LOCAL.start("", order.module, arguments, environment)
        for work in (self._read, self._watch):
            threading.Thread(target=work, daemon=True, name=work.__name__).start()
        with self._lock:
            self._has_started = True
            self._do_next()
        return Started(node, self._process.pid, self._home)

    def send(self, number: int, data: bytes | None) -> None:
        """Write bytes to the process's socket; None closes it."""
        self._take(number, data)

    def send_file(self, number: int, name: str, piece: Any, is_last: bool) -> None:
        """Write the next piece of a file into the process's folder, before whatever is sent later.

        The file has its name once it is whole.
        """
        self._take(number, (name, piece, is_last))

    def drop_file(self, name: str) -> None:
        """Delete a file, and the folder that it was in alone."""
        path = Path(self._home) / name
        path.unlink(missing_ok=True)
        with suppress(OSError):  # there are others
            path.parent.rmdir()

    def file_size(self, name: str) -> int:
        """Return the bytes of a file that the process has written. Raises `OSError`."""
        return (Path(self._home) / name).stat().st_size

    def read_file(self, name: str, start: int, size: int) -> Any:
        """Return `size` bytes of a file, or those that there are from `start` on. Raises `OSError`."""
        return np.fromfile(Path(self._home) / name, np.uint8, size, offset=start)

    def receive(self, seconds: float) -> News:
        """Wait for news for some seconds at most, and return them. With an exit code they are the last."""
        with self._change:
            self._change.wait_for(lambda: self._data or self._lines or self._code is not None, seconds)
            news = News(bytes(self._data), self._lines, self._code)
            self._data, self._lines = bytearray(), []
            self._change.notify_all()
        return news

    def kill(self) -> None:
        """Kill the process."""
        with suppress(OSError):
            os.kill(self._process.pid, signal.SIGKILL)

    def _take(self, number: int, message: Any) -> None:
        """Do what messages ask, in the order of their numbers, whatever order they come in."""
        with self._lock:
            self._inbox[number] = message
            if self._has_started:
                self._do_next()

    def _do_next(self) -> None:
        while self._next in self._inbox:
            self._do(self._inbox.pop(self._next))
            self._next += 1

    def _do(self, message: Any) -> None:
        if isinstance(message, tuple):
            self._write(*message)
            return
        with suppress(OSError):  # the process is gone, which `_watch` notices
            if message is None:
                self._socket.shutdown(socket.SHUT_WR)
            else:
                self._socket.sendall(message)

    def _write(self, name: str, piece: Any, is_last: bool) -> None:
        """Write a piece of a file; a process that cannot have it is ended."""
        path = Path(self._home) / name
        part = path.with_name(f"{path.name}.part")
        try:
            if path.parent != Path(self._home):
                path.parent.mkdir(exist_ok=True)
            with part.open("ab") as file:
                file.write(memoryview(piece))
            if is_last:
                part.rename(path)
        except OSError as error:
            if self._process.poll() is None:
                with self._change:
                    self._lines = [*self._lines, f"it cannot have the file {name}: {error}\n".encode()]
                self.kill()

    def _read(self) -> None:
        """Keep what the process writes for the run, on a thread of its own."""
        with suppress(OSError):
            while data := self._socket.recv(CHUNK):
                with self._change:
                    self._change.wait_for(lambda: len(self._data) < MOST_BYTES)
                    self._data += data
                    self._change.notify_all()

    def _watch(self) -> None:
        """Keep what the process prints, and note its end when all else is said; on a thread of its own."""
        assert self._process.stdout is not None
        printer = threading.Thread(target=self._print, args=(self._process.stdout,), daemon=True, name="output")
        printer.start()
        code = self._process.wait()
        printer.join(DRAIN_S)
        shutil.rmtree(self._home, ignore_errors=True)
        with self._change:
            self._change.wait_for(lambda: not self._data, DRAIN_S)
            self._code = code
            self._change.notify_all()

    def _print(self, stream: IO[bytes]) -> None:
        with stream:
            for line in iter(lambda: stream.readline(MAX_LINE), b""):
                with self._change:
                    self._lines = [*self._lines[-MOST_LINES:], line]
                    self._change.notify_all()
