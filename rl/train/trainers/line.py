"""A rank's end of the line to its run, which waits for signs of life from the start: this imports nothing slow."""

from __future__ import annotations

import os
import shutil
import threading
import time
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

ALIVE = "alive"  # what a rank says every second beside its answers
ALIVE_S = 1.0
POLL_S = 0.5  # between looks whether the run's process lives


class Line:
    """The connection `descriptor`, on which this process says every second that it lives.

    The process ends when `parent` is gone, whatever its main thread waits for, and deletes the ranks' `folder`.
    """

    def __init__(self, descriptor: int, parent: int, folder: str) -> None:
        self._folder = folder
        os.set_inheritable(descriptor, False)
        self._channel, self._lock = Connection(descriptor), threading.Lock()
        threading.Thread(target=self._watch, args=(parent,), daemon=True, name="parent").start()
        threading.Thread(target=self._show_life, daemon=True, name="alive").start()

    def send(self, message: Any) -> None:
        """Send a message. Raises `OSError` if the run is gone."""
        with self._lock:
            self._channel.send(message)

    def receive(self) -> Any:
        """Wait for a message and return it. Raises `EOFError` or `OSError` if the run is gone."""
        return self._channel.recv()

    def end(self) -> None:
        """End the process. Not in order: other ranks may be gone, for whom the process group would wait."""
        shutil.rmtree(self._folder, ignore_errors=True)
        os._exit(0)

    def _watch(self, parent: int) -> None:
        while os.getppid() == parent:
            time.sleep(POLL_S)
        self.end()

    def _show_life(self) -> None:
        with suppress(OSError):
            while True:
                self.send(ALIVE)
                time.sleep(ALIVE_S)
