"""Pipes and sockets of one call, written and read at once without waiting for any of them."""

from __future__ import annotations

import os
import select
import socket
from contextlib import suppress

_CHUNK = 1 << 16


class Traffic:
    """All that goes in and comes out, none of it waited for. Whoever says more than `most` bytes is not heard on."""

    def __init__(self, wire: socket.socket, most: int) -> None:
        self.wire, self.most = wire.fileno(), most
        self.is_flooded = False
        self._poll = select.poll()
        self._poll.register(self.wire, select.POLLIN)
        self._feeds: dict[int, memoryview] = {}
        self._drains: dict[int, bytearray] = {}

    def feed(self, descriptor: int, content: bytes) -> None:
        """Write content as it is taken; a pipe is the caller's to close once `is_fed`."""
        os.set_blocking(descriptor, False)
        self._feeds[descriptor] = memoryview(content)
        self._poll.register(descriptor, select.POLLOUT | (select.POLLIN if descriptor in self._drains else 0))

    def is_fed(self, descriptor: int) -> bool:
        """Whether all of it was taken, or nobody takes it any more."""
        return descriptor not in self._feeds

    def drain(self, descriptor: int) -> bytearray:
        """Where what comes out will be found."""
        os.set_blocking(descriptor, False)
        self._poll.register(descriptor, select.POLLIN)
        return self._drains.setdefault(descriptor, bytearray())

    def step(self, wait_s: float) -> bool:
        """Wait for something to pass, and pass it on. True where the warden has spoken."""
        spoken = False
        for descriptor, events in self._poll.poll(max(0.0, wait_s) * 1000):
            if descriptor == self.wire:
                spoken = True
                continue
            if descriptor in self._feeds and events & (select.POLLOUT | select.POLLERR | select.POLLHUP):
                self._write(descriptor)
            if descriptor in self._drains and events & (select.POLLIN | select.POLLHUP | select.POLLERR):
                self._read(descriptor)
        return spoken

    def settle(self) -> None:
        """Take what has come out already."""
        for descriptor in list(self._drains):
            while self._read(descriptor):
                pass

    def _write(self, descriptor: int) -> None:
        try:
            written = os.write(descriptor, self._feeds[descriptor][:_CHUNK])
        except BlockingIOError:
            return
        except OSError:  # nobody reads any more
            written = len(self._feeds[descriptor])
        self._feeds[descriptor] = self._feeds[descriptor][written:]
        if not self._feeds[descriptor]:
            del self._feeds[descriptor]
            if descriptor in self._drains:
                self._poll.modify(descriptor, select.POLLIN)
            else:
                self._poll.unregister(descriptor)

    def _read(self, descriptor: int) -> bool:
        held = self._drains[descriptor]
        if len(held) > self.most:
            return False
        try:
            part = os.read(descriptor, _CHUNK)
        except BlockingIOError:
            return False
        except OSError:
            part = b""
        held += part
        if len(held) > self.most:
            self.is_flooded = True
            part = b""
        if not part:
            with suppress(KeyError):
                self._poll.unregister(descriptor)
            self._feeds.pop(descriptor, None)
        return bool(part)
