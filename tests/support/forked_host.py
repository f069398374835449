"""A host whose processes start fast: they are forked after all imports, while those of a run import torch for seconds."""

from __future__ import annotations

import json
import multiprocessing
import os
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from multiprocessing.connection import Connection
from typing import Any
from unittest.mock import patch

from rl.processes.host import LocalHost, LocalProcess
from tests.support.runs import PRELOAD


class ForkedProcess:
    """A process that a fork server has started, as `rl.processes.host.Process` says. It is no child of this one."""

    is_up, fault, is_refused, node, home = True, "", False, "", ""
    describe: Any = LocalProcess.describe
    send_file: Any = LocalProcess.send_file
    drop_file: Any = LocalProcess.drop_file
    fetch_file: Any = LocalProcess.fetch_file

    def __init__(self, module: str, arguments: str, environment: Mapping[str, str], channel: socket.socket) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(PRELOAD)
        reader, writer = context.Pipe(duplex=False)
        with writer:
            self._process = context.Process(target=_serve, args=(module, arguments, environment, channel, writer))
            self._process.start()
        self.pid = self._process.pid or 0
        self.stdout = os.fdopen(os.dup(reader.fileno()), "rb")
        reader.close()

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired("", timeout or 0.0)
        return self._process.exitcode

    def kill(self) -> None:
        self._process.kill()


class ForkedHost(LocalHost):
    """This machine, with processes that have nothing to import. `pids` are those of all that it has started."""

    def __init__(self) -> None:
        self.pids: list[int] = []

    def start(
        self,
        name: str,
        module: str,
        arguments: Sequence[object],
        environment: Mapping[str, str],
        *,
        gpus: int = 0,
        file_bytes: int = 0,
    ) -> Any:
        own_end, child_end = socket.socketpair()
        with child_end:
            process = ForkedProcess(module, json.dumps(arguments), dict(environment), child_end)
        self.pids.append(process.pid)
        return own_end, process


@contextmanager
def forked_processes() -> Iterator[ForkedHost]:
    """Let what starts processes by `open_host` fork them, by the host that it is given."""
    with patch("rl.processes.host.LOCAL", ForkedHost()) as host:
        yield host


def _serve(
    module: str, arguments: str, environment: Mapping[str, str], channel: socket.socket, out: Connection
) -> None:
    os.setsid()
    for descriptor in (1, 2):
        os.dup2(out.fileno(), descriptor)
    out.close()
    os.environ.update(environment)
    import_module(module).main(channel.detach(), os.getppid(), *json.loads(arguments))
