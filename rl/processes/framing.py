"""Messages on a socket between two processes of one program: pickles behind their length.

The two ends are one program on one machine, and the socket is a pair without an address, so nothing else can write to
it.
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Iterator
from typing import Any

LENGTH = struct.Struct("!Q")


def frame(message: object) -> bytes:
    """Return the bytes of a message on the socket."""
    data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    return LENGTH.pack(len(data)) + data


class Inbox:
    """Bytes from the socket, of which complete messages are taken."""

    def __init__(self) -> None:
        self._data = bytearray()

    def add(self, data: bytes) -> Iterator[Any]:
        """Add bytes; yield every message that is complete."""
        self._data += data
        start = 0
        try:
            while len(self._data) - start >= LENGTH.size:
                (length,) = LENGTH.unpack_from(self._data, start)
                end = start + LENGTH.size + length
                if len(self._data) < end:
                    break
                message = pickle.loads(memoryview(self._data)[start + LENGTH.size : end])
                start = end
                yield message
        finally:
            del self._data[:start]
