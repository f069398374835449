"""Non-blocking input and output of one call: pipes and the channel, written and read as they become ready."""

from __future__ import annotations

import os
import select
import socket
from contextlib import suppress

_CHUNK = 1 << 16


class PipeMultiplexer:
    """Feeds and drains any number of descriptors without waiting for one of them.

    Reading from a descriptor stops once it has delivered more than `max_bytes`; `over_limit` is then True.
    """

    def __init__(self, sock: socket.socket, max_bytes: int) -> None:
        """Watch `sock`, which is connected to the warden (the process that runs the programs); it is never read here.

        `max_bytes` is for each descriptor that is read.
        """
        self.sock, self.max_bytes = sock.fileno(), max_bytes
        self.over_limit = False
        self._poll = select.poll()
        self._poll.register(self.sock, select.POLLIN)
        self._inputs: dict[int, memoryview] = {}  # what is still to be written, by descriptor
        self._outputs: dict[int, bytearray] = {}  # what was read, by descriptor
        self._ends: set[int] = set()  # descriptors whose end of file was read

    def feed(self, descriptor: int, content: bytes) -> None:
        """Have `step` write the content as the other end reads it; the caller closes a pipe once `is_fed`."""
        os.set_blocking(descriptor, False)
        self._inputs[descriptor] = memoryview(content)
        self._poll.register(descriptor, select.POLLOUT | (select.POLLIN if descriptor in self._outputs else 0))

    def is_fed(self, descriptor: int) -> bool:
        """Whether all content that `feed` got for the descriptor was written, or the other end is closed."""
        return descriptor not in self._inputs

    def drain(self, descriptor: int) -> bytearray:
        """Return the buffer in which `step` and `drain_ready` collect what the descriptor delivers from now on."""
        os.set_blocking(descriptor, False)
        self._poll.register(descriptor, select.POLLIN)
        return self._outputs.setdefault(descriptor, bytearray())

    def is_at_end(self, descriptor: int) -> bool:
        """Whether everything that the descriptor will ever deliver was read: its other end is closed."""
        return descriptor in self._ends

    def step(self, wait_s: float) -> bool:
        """Wait up to `wait_s` seconds until a descriptor is ready, then write or read every ready one once.

        Returns whether a message of the warden, the process that runs the program, waits on `sock`; it is not read.
        """
        warden_sent = False
        for descriptor, events in self._poll.poll(max(0.0, wait_s) * 1000):
            if descriptor == self.sock:
                warden_sent = True
                continue
            if descriptor in self._inputs and events & (select.POLLOUT | select.POLLERR | select.POLLHUP):
                self._write(descriptor)
            if descriptor in self._outputs and events & (select.POLLIN | select.POLLHUP | select.POLLERR):
                self._read(descriptor)
        return warden_sent

    def drain_ready(self) -> None:
        """Read everything that can be read without waiting from all descriptors that are drained."""
        for descriptor in list(self._outputs):
            while self._read(descriptor):
                pass

    def _write(self, descriptor: int) -> None:
        try:
            size = os.write(descriptor, self._inputs[descriptor][:_CHUNK])
        except BlockingIOError:
            return
        except OSError:  # the other end is closed
            size = len(self._inputs[descriptor])
        self._inputs[descriptor] = self._inputs[descriptor][size:]
        if not self._inputs[descriptor]:
            del self._inputs[descriptor]
            if descriptor in self._outputs:
                self._poll.modify(descriptor, select.POLLIN)
            else:
                self._poll.unregister(descriptor)

    def _read(self, descriptor: int) -> bool:
        """Read once; whether more may follow."""
        buffer = self._outputs[descriptor]
        if len(buffer) > self.max_bytes:
            return False
        try:
            part = os.read(descriptor, _CHUNK)
        except BlockingIOError:
            return False
        except OSError:
            part = b""
        if not part:
            self._ends.add(descriptor)
        buffer += part
        if len(buffer) > self.max_bytes:
            self.over_limit = True
            part = b""
        if not part:
            with suppress(KeyError):
                self._poll.unregister(descriptor)
            self._inputs.pop(descriptor, None)
        return bool(part)
