"""How host, zygote, warden and candidate speak to each other.

Between our own processes: one JSON object per message, with file descriptors. On a candidate's channel: its work goes
in as one frame (`marshal`: both ends are the same Python), its answers come out as JSON frames that nobody trusts.
"""

from __future__ import annotations

import json
import marshal
import os
import socket
import struct
from collections.abc import Sequence
from typing import Any

from sandboxes.types import SandboxDied

HEADER = struct.Struct("<I")
STARTED, BROKEN = b"s", b"b"  # the first byte on a candidate's channel: before any of its code ran
_MAX_MESSAGE, _MAX_DESCRIPTORS = 1 << 16, 8


def pair() -> tuple[socket.socket, socket.socket]:
    """Two ends of a wire for messages."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def send(wire: socket.socket, message: dict[str, Any], descriptors: Sequence[int] = ()) -> None:
    """Send one message. Raises SandboxDied where nobody listens."""
    try:
        socket.send_fds(wire, [json.dumps(message).encode()], descriptors)
    except OSError as fault:
        raise SandboxDied(f"the sandbox is gone: {fault}") from None


def receive(wire: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """The next message. Raises EOFError where the other end is closed."""
    try:
        text, descriptors, _, _ = socket.recv_fds(wire, _MAX_MESSAGE, _MAX_DESCRIPTORS, socket.MSG_CMSG_CLOEXEC)
    except ConnectionError:
        raise EOFError from None
    if not text:
        raise EOFError
    return json.loads(text), list(descriptors)


def frame(content: bytes) -> bytes:
    """Content with its length before it."""
    return HEADER.pack(len(content)) + content


def packed(work: dict[str, Any]) -> bytes:
    """A frame of work for a candidate's process."""
    return frame(marshal.dumps(work))


def read_work(channel: int) -> dict[str, Any]:
    """The next work in a candidate's process. Raises EOFError when the host has closed the channel."""
    (size,) = HEADER.unpack(exactly(channel, HEADER.size))
    return marshal.loads(exactly(channel, size))


def write_all(descriptor: int, content: bytes) -> None:
    """Write all of it, waiting as long as it takes."""
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def exactly(descriptor: int, size: int) -> bytes:
    """That many bytes. Raises EOFError where they end before."""
    parts = []
    while size:
        part = os.read(descriptor, min(size, 1 << 20))
        if not part:
            raise EOFError
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
