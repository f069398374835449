"""Messages between the host and the processes of a sandbox.

The zygote is the process that all wardens are forked from; a warden forks and ends candidates; a candidate is an
untrusted program. Trusted processes exchange one JSON object per message, with file descriptors. On a candidate's
channel the request goes in as one frame of `marshal` (both ends run the same Python); replies come out as JSON frames
and are not trusted.
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
# The first byte on a candidate's channel, sent before any of its code runs. After FILES_REFUSED: errno, space, message.
STARTED, SETUP_FAILED, FILES_REFUSED = b"s", b"b", b"f"
_MAX_MESSAGE, _MAX_DESCRIPTORS = 1 << 16, 8


def socket_pair() -> tuple[socket.socket, socket.socket]:
    """Return two connected Unix sockets that keep the boundaries of messages, for `send` and `receive`."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def send(sock: socket.socket, message: dict[str, Any], descriptors: Sequence[int] = ()) -> None:
    """Send one message, as JSON, with copies of file descriptors. Raises SandboxDied where the other end is closed."""
    try:
        socket.send_fds(sock, [json.dumps(message).encode()], descriptors)
    except OSError as fault:
        raise SandboxDied(f"the sandbox is gone: {fault}") from None


def receive(sock: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Wait for the next message; return it with its file descriptors, which the caller must close.

    Raises EOFError where the other end is closed.
    """
    try:
        text, descriptors, _, _ = socket.recv_fds(sock, _MAX_MESSAGE, _MAX_DESCRIPTORS, socket.MSG_CMSG_CLOEXEC)
    except ConnectionError:
        raise EOFError from None
    if not text:
        raise EOFError
    return json.loads(text), list(descriptors)


def frame(content: bytes) -> bytes:
    """Return the content with its length before it, as four bytes, least significant first."""
    return HEADER.pack(len(content)) + content


def pack_request(request: dict[str, Any]) -> bytes:
    """Return a request to the process of a candidate (an untrusted program) as bytes for its channel.

    They are its `marshal` dump behind a header with its length, so it must hold plain built-in values only.
    """
    return frame(marshal.dumps(request))


def read_request(channel: int) -> dict[str, Any]:
    """Wait for the next request on the descriptor `channel`, in the process of a candidate (an untrusted program).

    Raises EOFError once the host has closed the channel.
    """
    (size,) = HEADER.unpack(read_exactly(channel, HEADER.size))
    return marshal.loads(read_exactly(channel, size))


def write_all(descriptor: int, content: bytes) -> None:
    """Write all of the content to a blocking descriptor, however long it takes."""
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def read_exactly(descriptor: int, size: int) -> bytes:
    """Read `size` bytes from a blocking descriptor. Raises EOFError if it ends before."""
    parts = []
    while size:
        part = os.read(descriptor, min(size, 1 << 20))
        if not part:
            raise EOFError
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
