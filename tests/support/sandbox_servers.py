"""Servers of the sandbox `remote`, each a process of its own that is gone when its test is."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from tests.support.paths import ROOT

SECRET = "a-token-that-is-5ecret"
JSON = {"Content-Type": "application/json"}


@dataclass(frozen=True)
class Served:
    """A server that runs: its process and where it is."""

    process: subprocess.Popen[str]
    url: str

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def end(self, number: int = signal.SIGINT) -> tuple[int, str]:
        """Its exit code after a signal, and what it said on stderr."""
        self.process.send_signal(number)
        _, said = self.process.communicate(timeout=30)
        return self.process.returncode, said


@contextmanager
def served(*words: str, token: str = "") -> Iterator[Served]:
    """A server for a while. It says where it is once it can be asked."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("TURNWISE_SANDBOX_")}
    if token:
        env["TURNWISE_SANDBOX_TOKEN"] = token
    command = [sys.executable, "-m", "sandboxes", "serve", *words]
    process = subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout
        line = process.stdout.readline()
        assert line, process.communicate(timeout=30)[1]
        yield Served(process, line.split()[0])
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        try:
            process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


def post(port: int, path: str, said: object, token: str = SECRET) -> tuple[int, dict[str, Any]]:
    """The status and the object of an answer; its headers are added as "headers"."""
    body = said if isinstance(said, bytes) else json.dumps(said).encode()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    given = {**JSON, **({"Authorization": f"Bearer {token}"} if token else {})}
    with suppress(ConnectionError):  # it may be refused before all of it was sent
        connection.request("POST", path, body, given)
    answer = connection.getresponse()
    found = answer.status, json.loads(answer.read()), dict(answer.headers)
    connection.close()
    return found[0], found[1] | {"headers": found[2]}


def wait_until(holds: Callable[[], bool]) -> bool:
    until = time.monotonic() + 20
    while not holds() and time.monotonic() < until:
        time.sleep(0.02)
    return holds()
