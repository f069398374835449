"""The host's side of one container: sends requests to its agent, and waits for responses with a deadline.

The agent is the container's first process; it has a warden, a second one, fork and end the untrusted programs.
"""

from __future__ import annotations

import marshal
import os
import select
import socket
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib.util import MAGIC_NUMBER
from pathlib import Path
from typing import Any

from sandboxes import recycling
from sandboxes.docker import codec
from sandboxes.docker.codec import Message
from sandboxes.docker.container_config import ContainerConfig
from sandboxes.docker.engine import Engine
from sandboxes.local.confinement.mounts import ENVIRONMENT
from sandboxes.types import Result, SandboxDied, SandboxUnavailable

OVERDUE_S = 15.0  # after its deadline an agent that is still silent is given up
STOP_S = 3.0  # for a container to end after its stdin was closed
READ_S = 5.0  # for a file to be read in a session
_MAX_MESSAGE = 1 << 31
_STREAM = struct.Struct(">BxxxI")  # the engine's own header: which stream, how many bytes
_STDOUT = 1
_CHUNK = 1 << 18
_INSIDE = (  # this project's modules that the agent imports
    "sandboxes sandboxes.types sandboxes.json_values sandboxes.recycling sandboxes.local sandboxes.local.call "
    "sandboxes.local.candidate sandboxes.local.codec sandboxes.local.fetch sandboxes.local.heap "
    "sandboxes.local.identity sandboxes.local.interpreter sandboxes.local.pipes sandboxes.local.place "
    "sandboxes.local.preload sandboxes.local.session sandboxes.local.usage sandboxes.local.warden "
    "sandboxes.local.confinement sandboxes.local.confinement.box sandboxes.local.confinement.jail "
    "sandboxes.local.confinement.landlock sandboxes.local.confinement.seccomp "
    "sandboxes.local.confinement.syscalls sandboxes.docker sandboxes.docker.agent sandboxes.docker.codec "
    "sandboxes.docker.dispatch"
)
_VARIABLES = {  # in addition to those of the image
    **{name: value for name, value in ENVIRONMENT.items() if name != "PATH"},
    "PYTHONUTF8": "1",
    "PYTHONSAFEPATH": "1",
    "PYTHONNOUSERSITE": "1",
}


class Container:
    """One container. Used by one thread at a time, except `kill`."""

    def __init__(self, engine: Engine, id: str, stream: socket.socket, config: ContainerConfig) -> None:
        """`stream` is the engine's connection to stdin, stdout and stderr of the container `id`, made with `config`."""
        self.engine, self.id, self.config = engine, id, config
        self.is_reusable = True
        self.calls, self.last_used = 0, time.monotonic()
        self._pid = os.getpid()
        self._stream: socket.socket | None = stream
        self._raw, self._stdout, self._stderr = bytearray(), bytearray(), bytearray()

    def request(self, head: dict[str, Any], blobs: Sequence[bytes] = (), *, timeout_s: float) -> Message:
        """Send a request, which takes up to `timeout_s` seconds, to the agent (the container's first process).

        `head` has "do", "run" for a program, "ask" for a cell or call, or "read" for a file, and their arguments;
        `blobs` are contents of stdin and files. Returns the response, also a head and blobs. Raises the OSError that
        the agent met, and SandboxDied where the agent is gone, failed, or is late.
        """
        self.calls += 1
        try:
            response = self._exchange(codec.pack(head, blobs), timeout_s + OVERDUE_S)
        except BaseException:
            self.is_reusable = False
            raise
        self.last_used = time.monotonic()
        self.is_reusable &= response.head["good"] and recycling.is_clean(0, response.head["grown"])
        if "fault" in response.head:
            self.is_reusable = False
            raise SandboxDied(f"in a container: {response.head['fault']}")
        if "why" in response.head:
            raise OSError(response.head["errno"], response.head["why"])
        return response

    def is_healthy(self) -> bool:
        """Whether the container's own processes respond in time, and no process of a call is left.

        They must not have grown by much memory either. If not, `is_reusable` becomes False.
        """
        try:
            response = self._exchange(codec.pack({"do": "look"}), 2 * recycling.HEALTH_TIMEOUT_S)
            self.is_reusable &= response.head["well"]
        except SandboxDied:
            self.is_reusable = False
        self.last_used = time.monotonic()
        return self.is_reusable

    def send_bundle(self, bundle: bytes, start_s: float) -> None:
        """Send the modules of the agent (the container's own server) to the program `boot`, which runs there.

        Raises SandboxUnavailable where the agent is not ready within `start_s` seconds.
        """
        try:
            self._exchange(struct.pack("<I", len(bundle)) + bundle, start_s)
        except SandboxDied as fault:
            raise SandboxUnavailable(f"docker: a container did not come up: {self._last_error() or fault}") from None

    def _exchange(self, request: bytes, within_s: float) -> Message:
        deadline, rest = time.monotonic() + within_s, memoryview(request)
        stream = self._stream
        if stream is None:
            raise SandboxDied("the container was closed")
        poll = select.poll()
        poll.register(stream, select.POLLIN | select.POLLOUT)
        while True:
            wait_s = deadline - time.monotonic()
            if wait_s <= 0:
                raise SandboxDied(f"a container did not answer within {within_s:g} s")
            for _, events in poll.poll(1000 * wait_s):
                try:
                    if rest and events & select.POLLOUT:
                        rest = rest[stream.send(rest[:_CHUNK]) :]
                        if not rest:
                            poll.modify(stream, select.POLLIN)
                    if events & ~select.POLLOUT:
                        self._demultiplex(stream.recv(_CHUNK))
                except BlockingIOError:
                    continue
                except OSError as fault:
                    raise SandboxDied(f"a container died in the middle of a call: {fault}") from None
            if response := self._parse_response():
                return response

    def _demultiplex(self, part: bytes) -> None:
        """Sort what the engine passes on into stdout, which holds responses, and stderr."""
        if not part:
            raise SandboxDied(f"a container died in the middle of a call: {self._last_error() or 'it was killed'}")
        self._raw += part
        position = 0
        while len(self._raw) - position >= _STREAM.size:
            stream, size = _STREAM.unpack_from(self._raw, position)
            start = position + _STREAM.size
            if len(self._raw) < start + size:
                break
            (self._stdout if stream == _STDOUT else self._stderr).extend(self._raw[start : start + size])
            position = start + size
        del self._raw[:position], self._stderr[:-4096]

    def _last_error(self) -> str:
        """The last line of stderr."""
        return self._stderr.decode(errors="replace").strip().rpartition("\n")[2]

    def _parse_response(self) -> Message | None:
        """The response, if all of it has arrived."""
        if len(self._stdout) < codec.HEADER.size:
            return None
        text, body = codec.HEADER.unpack_from(self._stdout)
        body_start = codec.HEADER.size + text
        if text + body > _MAX_MESSAGE:
            raise SandboxDied("a container's agent speaks nonsense")
        if len(self._stdout) < body_start + body:
            return None
        response = codec.unpack(bytes(self._stdout[codec.HEADER.size : body_start]), bytes(self._stdout[body_start:]))
        self._stdout.clear()
        return response

    def kill(self) -> None:
        """End what runs there. May be called from any thread."""
        self.is_reusable = False
        if self._pid == os.getpid():
            self.engine.remove(self.id)

    def close(self) -> None:
        """Close its stdin and wait until it has ended; remove it where it does not. May be called again."""
        stream, self._stream, self.is_reusable = self._stream, None, False
        if stream is None:
            return
        with stream:
            if self._pid == os.getpid() and not _stops(stream):  # a forked process leaves it to its parent
                self.engine.remove(self.id)


class ContainerBackend:
    """The container of a session; see `sandboxes.replay_session.SessionBackend`."""

    def __init__(self, container: Container, limits: Mapping[str, Any], release: Callable[[Container], None]) -> None:
        """`limits` are `dataclasses.asdict` of a `Limits`; `release` takes the container back at the session's end."""
        self.container, self.limits, self._release = container, limits, release

    def evaluate(self, work: dict[str, Any], timeout_s: float) -> tuple[Result, bool]:
        """Run a cell or a call in the interpreter; see `SessionBackend.evaluate`."""
        response = self._request({"do": "ask", "work": work}, [], timeout_s)
        return codec.unpack_result(response.head["result"], response.blobs), response.head["goes_on"]

    def run(
        self, program: str | Sequence[str] | None, files: Mapping[str, bytes], stdin: bytes, timeout_s: float
    ) -> tuple[Result, bool]:
        """Run a program; see `SessionBackend.run`."""
        head = {"do": "run", "once": False, "program": program, "paths": list(files)}
        response = self._request(head, [stdin, *files.values()], timeout_s)
        return codec.unpack_result(response.head["result"], response.blobs), response.head["goes_on"]

    def read(self, path: str, max_bytes: int) -> bytes:
        """Read a file; see `SessionBackend.read`."""
        return self._request({"do": "read", "path": path, "max_bytes": max_bytes}, [], READ_S).blobs[0]

    def _request(self, head: dict[str, Any], blobs: Sequence[bytes], timeout_s: float) -> Message:
        return self.container.request(
            head | {"timeout_s": timeout_s, "limits": self.limits}, blobs, timeout_s=timeout_s
        )

    def kill(self) -> None:
        """Kill what runs now; see `SessionBackend.kill`."""
        self.container.kill()

    def close(self) -> None:
        """Free everything; see `SessionBackend.close`."""
        self.container.is_reusable = False  # what a session leaves is for no other
        self._release(self.container)


def start_container(
    engine: Engine, image: str, config: ContainerConfig, *, cpus: float, preload: Sequence[str], start_s: float
) -> Container:
    """Create a container, and wait until its agent, the process that serves the host's requests, is ready.

    `image` is the image's name or id, `cpus` the number of CPUs. The packages of `preload` are imported first if
    `config.preload` is set. Raises SandboxUnavailable where the agent is not ready in `start_s` seconds, SandboxDied
    for an error of the engine.
    """
    boot = Path(__file__).with_name("boot.py").read_text()
    id = engine.create(image, ["-c", boot], _VARIABLES, config.engine_options(cpus))
    try:
        container = Container(engine, id, engine.attach(id), config)
        engine.start(id)
        container.send_bundle(_bundle(tuple(preload) if config.preload else ()), start_s)
    except BaseException:
        engine.remove(id)
        raise
    return container


@cache
def _bundle(preload: tuple[str, ...]) -> bytes:
    """What `boot` reads: modules by name, as text and as this Python's code, and the agent's config."""
    root = Path(__file__).resolve().parents[2]
    modules: dict[str, tuple[str, bytes]] = {}
    for name in _INSIDE.split():
        path = root.joinpath(*name.split("."))
        text = "" if path.is_dir() else path.with_suffix(".py").read_text()
        modules[name] = (text, marshal.dumps(compile(text, name, "exec")))
    return marshal.dumps({"magic": MAGIC_NUMBER, "modules": modules, "config": {"preload": list(preload)}}, 2)


def _stops(stream: socket.socket) -> bool:
    """Close a container's stdin; whether the container has ended in time."""
    deadline = time.monotonic() + STOP_S
    poll = select.poll()
    poll.register(stream, select.POLLIN)
    with suppress(OSError):
        stream.shutdown(socket.SHUT_WR)
        while (wait_s := deadline - time.monotonic()) > 0:
            if poll.poll(1000 * wait_s) and not stream.recv(_CHUNK):
                return True
        return False
    return True
