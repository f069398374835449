"""A rank's end of the line to its run, which waits for signs of life from the start: this imports nothing slow."""

from __future__ import annotations

import os
import shutil
import threading
import time
import warnings
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

ALIVE = "alive"  # what a rank says every second beside its answers
ALIVE_S = 1.0
POLL_S = 0.5  # between looks whether the run's process lives
FILE_POLL_S = 0.01  # between looks whether a file has come


def main(descriptor: int, parent: int, number: int, count: int, home: str) -> None:
    """Be rank `number` of `count` until process `parent` is gone; see `Line`."""
    warnings.simplefilter("ignore")  # the last line that it prints is to say what it died of
    line = Line(descriptor, parent, home)
    from rl.train.trainers.rank import serve  # torch takes seconds to import

    serve(line, number, count)


class Line:
    """The connection `descriptor`, on which this process says every second that it lives.

    The process ends when `parent` is gone, whatever its main thread waits for, and deletes the folder of its files.

    Attributes:
        home: That folder.
    """

    def __init__(self, descriptor: int, parent: int, home: str) -> None:
        self.home = home
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
        shutil.rmtree(self.home, ignore_errors=True)
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


def wait_for_file(path: str, timeout_s: float) -> None:
    """Wait for a file that another process of this machine is being sent. Raises `TimeoutError` if it does not come."""
    deadline = time.monotonic() + timeout_s
    while not os.path.exists(path):
        if time.monotonic() > deadline:
            raise TimeoutError(f"no file {path} has come within {timeout_s:g} s")
        time.sleep(FILE_POLL_S)
