"""SIGTERM and SIGHUP end a command like Ctrl-C does: what Slurm, Kubernetes, systemd and a closed terminal send."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGTERM, signal.SIGHUP)


class StopSignal:
    """The last signal of `SIGNALS` that was received: `number`, 0 for none."""

    number = 0

    def exit_code(self, code: int) -> int:
        """Return the exit code of a command that would end with `code`: 128 + the signal's number if that ended it."""
        return 128 + self.number if code and self.number else code


@contextmanager
def like_ctrl_c() -> Iterator[StopSignal]:
    """Context in which SIGTERM and SIGHUP do what Ctrl-C does at that moment; tells which one was received.

    A signal that is ignored (SIGHUP under `nohup`) or handled already stays so. Where Ctrl-C is ignored, as in a
    shell's background jobs, `KeyboardInterrupt` is raised. In forked children the signals keep their usual effect.
    Outside of the main thread nothing changes.
    """
    stop, process = StopSignal(), os.getpid()

    def forward(number: int, frame: FrameType | None) -> None:
        if os.getpid() != process:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
            return
        stop.number = number
        if signal.getsignal(signal.SIGINT) in (signal.SIG_IGN, signal.SIG_DFL, None):
            raise KeyboardInterrupt
        signal.raise_signal(signal.SIGINT)

    is_main = threading.current_thread() is threading.main_thread()
    numbers = [number for number in SIGNALS if is_main and signal.getsignal(number) is signal.SIG_DFL]
    for number in numbers:
        signal.signal(number, forward)
    try:
        yield stop
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)
