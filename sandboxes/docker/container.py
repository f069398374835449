"""The host's end of one container: questions to its agent, and answers in time."""

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
from sandboxes.docker.container_config import Shape
from sandboxes.docker.engine import Engine
from sandboxes.local.confinement.mounts import ENVIRONMENT
from sandboxes.types import Result, SandboxDied, SandboxUnavailable

LATE_S = 15.0  # after its deadline an agent that is still silent is given up
HANG_UP_S = 3.0  # for a container to end once its stdin has
_MOST_SAID = 1 << 31
_STREAM = struct.Struct(">BxxxI")  # the engine's own header: which stream, how many bytes
_STDOUT = 1
_CHUNK = 1 << 18
_INSIDE = (  # our modules that a container needs
    "sandboxes sandboxes.types sandboxes.json_values sandboxes.session_base sandboxes.recycling sandboxes.local "
    "sandboxes.local.candidate sandboxes.local.interpreter sandboxes.local.fetch sandboxes.local.confinement "
    "sandboxes.local.confinement.jail sandboxes.local.confinement.syscalls sandboxes.local.confinement.landlock "
    "sandboxes.local.confinement.seccomp sandboxes.local.preload sandboxes.local.heap sandboxes.local.place "
    "sandboxes.local.session sandboxes.local.pipes sandboxes.local.warden sandboxes.local.usage "
    "sandboxes.local.codec sandboxes.docker sandboxes.docker.agent sandboxes.docker.dispatch "
    "sandboxes.docker.codec"
)
_VARIABLES = {  # beside what the image sets
    **{name: value for name, value in ENVIRONMENT.items() if name != "PATH"},
    "PYTHONUTF8": "1",
    "PYTHONSAFEPATH": "1",
    "PYTHONNOUSERSITE": "1",
}


class Box:
    """One container. Used by one thread at a time, but for `kill`."""

    def __init__(self, engine: Engine, container: str, stream: socket.socket, shape: Shape) -> None:
        self.engine, self.container, self.shape = engine, container, shape
        self.is_good = True
        self.calls, self.used = 0, time.monotonic()
        self._pid = os.getpid()
        self._stream: socket.socket | None = stream
        self._raw, self._said, self._complaint = bytearray(), bytearray(), bytearray()

    def ask(self, head: dict[str, Any], blobs: Sequence[bytes] = (), *, within_s: float) -> Message:
        """The agent's answer. OSError if that is what it found; SandboxDied where it is gone, or late."""
        self.calls += 1
        try:
            answer = self._exchange(codec.packed(head, blobs), within_s + LATE_S)
        except BaseException:
            self.is_good = False
            raise
        self.used = time.monotonic()
        self.is_good &= answer.head["good"] and recycling.is_sound(0, answer.head["grown"])
        if "fault" in answer.head:
            self.is_good = False
            raise SandboxDied(f"in a container: {answer.head['fault']}")
        if "why" in answer.head:
            raise OSError(answer.head["errno"], answer.head["why"])
        return answer

    def is_well(self) -> bool:
        """Whether its agent and its warden answer in time, and nothing runs there that should not."""
        try:
            self.is_good &= self._exchange(codec.packed({"do": "look"}), 2 * recycling.ASKED_S).head["well"]
        except SandboxDied:
            self.is_good = False
        self.used = time.monotonic()
        return self.is_good

    def begin(self, parcel: bytes, start_s: float) -> None:
        """Send the agent. Raises SandboxUnavailable where it does not come up."""
        try:
            self._exchange(struct.pack("<I", len(parcel)) + parcel, start_s)
        except SandboxDied as fault:
            last = self._complaint.decode(errors="replace").strip().rpartition("\n")[2]
            raise SandboxUnavailable(f"docker: a container did not come up: {last or fault}") from None

    def _exchange(self, question: bytes, within_s: float) -> Message:
        until, rest = time.monotonic() + within_s, memoryview(question)
        stream = self._stream
        if stream is None:
            raise SandboxDied("the container was closed")
        poll = select.poll()
        poll.register(stream, select.POLLIN | select.POLLOUT)
        while True:
            wait_s = until - time.monotonic()
            if wait_s <= 0:
                raise SandboxDied(f"a container did not answer within {within_s:g} s")
            for _, events in poll.poll(1000 * wait_s):
                try:
                    if rest and events & select.POLLOUT:
                        rest = rest[stream.send(rest[:_CHUNK]) :]
                        if not rest:
                            poll.modify(stream, select.POLLIN)
                    if events & ~select.POLLOUT:
                        self._hear(stream.recv(_CHUNK))
                except BlockingIOError:
                    continue
                except OSError as fault:
                    raise SandboxDied(f"a container died in the middle of a call: {fault}") from None
            if answer := self._answer():
                return answer

    def _hear(self, part: bytes) -> None:
        """Sort what the engine passes on into the agent's words and its complaints."""
        if not part:
            last = self._complaint.decode(errors="replace").strip().rpartition("\n")[2]
            raise SandboxDied(f"a container died in the middle of a call: {last or 'it was killed'}")
        self._raw += part
        at = 0
        while len(self._raw) - at >= _STREAM.size:
            stream, size = _STREAM.unpack_from(self._raw, at)
            first = at + _STREAM.size
            if len(self._raw) < first + size:
                break
            (self._said if stream == _STDOUT else self._complaint).extend(self._raw[first : first + size])
            at = first + size
        del self._raw[:at], self._complaint[:-4096]

    def _answer(self) -> Message | None:
        if len(self._said) < codec.HEADER.size:
            return None
        text, body = codec.HEADER.unpack_from(self._said)
        middle = codec.HEADER.size + text
        if text + body > _MOST_SAID:
            raise SandboxDied("a container's agent speaks nonsense")
        if len(self._said) < middle + body:
            return None
        answer = codec.unpacked(bytes(self._said[codec.HEADER.size : middle]), bytes(self._said[middle:]))
        self._said.clear()
        return answer

    def kill(self) -> None:
        """End what runs there; from any thread."""
        self.is_good = False
        if self._pid == os.getpid():
            self.engine.remove(self.container)

    def close(self) -> None:
        """Hang up, and wait until the container has ended. Any number of times."""
        stream, self._stream, self.is_good = self._stream, None, False
        if stream is None:
            return
        with stream:
            if self._pid == os.getpid() and not _ends(stream):  # in a forked process it is left to the parent
                self.engine.remove(self.container)


class BoxRoom:
    """See `sandboxes.session_base.Room`: a session's container."""

    def __init__(self, box: Box, limits: Mapping[str, Any], give: Callable[[Box], None]) -> None:
        """`give` takes the container back when the session is over."""
        self.box, self.limits, self._give = box, limits, give

    def ask(self, work: dict[str, Any], timeout_s: float) -> tuple[Result, bool]:
        """See `Room.ask`."""
        answer = self._asked({"do": "ask", "work": work}, [], timeout_s)
        return codec.heard(answer.head["result"], answer.blobs), answer.head["goes_on"]

    def run(
        self, program: str | Sequence[str] | None, files: Mapping[str, bytes], stdin: bytes, timeout_s: float
    ) -> Result:
        """See `Room.run`."""
        head = {"do": "run", "once": False, "program": program, "paths": list(files)}
        answer = self._asked(head, [stdin, *files.values()], timeout_s)
        return codec.heard(answer.head["result"], answer.blobs)

    def read(self, path: str, max_bytes: int) -> bytes:
        """See `Room.read`."""
        return self._asked({"do": "read", "path": path, "max_bytes": max_bytes}, [], 5.0).blobs[0]

    def _asked(self, head: dict[str, Any], blobs: Sequence[bytes], timeout_s: float) -> Message:
        return self.box.ask(head | {"timeout_s": timeout_s, "limits": self.limits}, blobs, within_s=timeout_s)

    def kill(self) -> None:
        """See `Room.kill`."""
        self.box.kill()

    def close(self) -> None:
        """See `Room.close`."""
        self.box.is_good = False  # what a session leaves is for no other
        self._give(self.box)


def opened(engine: Engine, image: str, shape: Shape, *, cpus: float, preload: Sequence[str], start_s: float) -> Box:
    """A container whose agent is ready. Raises SandboxUnavailable where it does not come up."""
    boot = Path(__file__).with_name("boot.py").read_text()
    container = engine.create(image, ["-c", boot], _VARIABLES, shape.flags(cpus))
    try:
        box = Box(engine, container, engine.attach(container), shape)
        engine.start(container)
        box.begin(_parcel(tuple(preload) if shape.loaded else ()), start_s)
    except BaseException:
        engine.remove(container)
        raise
    return box


@cache
def _parcel(preload: tuple[str, ...]) -> bytes:
    """What `boot` takes: our modules by name, as text and as this Python's code, and the agent's config."""
    root = Path(__file__).resolve().parents[2]
    modules: dict[str, tuple[str, bytes]] = {}
    for name in _INSIDE.split():
        path = root.joinpath(*name.split("."))
        text = "" if path.is_dir() else path.with_suffix(".py").read_text()
        modules[name] = (text, marshal.dumps(compile(text, name, "exec")))
    return marshal.dumps({"magic": MAGIC_NUMBER, "modules": modules, "config": {"preload": list(preload)}}, 2)


def _ends(stream: socket.socket) -> bool:
    """Hang up on a container; whether it has ended in time."""
    until = time.monotonic() + HANG_UP_S
    poll = select.poll()
    poll.register(stream, select.POLLIN)
    with suppress(OSError):
        stream.shutdown(socket.SHUT_WR)
        while (wait_s := until - time.monotonic()) > 0:
            if poll.poll(1000 * wait_s) and not stream.recv(_CHUNK):
                return True
        return False
    return True
