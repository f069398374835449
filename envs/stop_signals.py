"""SIGTERM and SIGHUP end a command like Ctrl-C does: what Slurm, Kubernetes, systemd and a closed terminal send.

Ctrl-C while a command still imports its modules ends it in one line. This file imports nothing of the project, so that
a command can execute it by its path before it imports anything else.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGTERM, signal.SIGHUP)
INTERRUPTED = 128 + signal.SIGINT  # a shell's code


class StopSignal:
    """The last signal of `SIGNALS` that was received: `number`, 0 for none."""

    number = 0

    def exit_code(self, code: int) -> int:
        """Return the exit code of a command that would end with `code`: 128 + the signal's number if that ended it."""
        return 128 + self.number if code and self.number else code


def end_on_ctrl_c() -> None:
    """Let Ctrl-C end the process with one line and status 130, until the command begins with `like_ctrl_c`.

    For the time of its imports, when there is nothing to save. A `KeyboardInterrupt` would print a traceback, or be
    lost in a module written in C. Where Ctrl-C is ignored or handled already, nothing changes.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def _end(number: int, frame: FrameType | None) -> None:
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    words = sys.orig_argv
    name = spec.name.removesuffix(".__main__") if spec else os.path.basename(sys.argv[0])
    if name == "-m":  # Python is still looking for the module
        name = words[words.index("-m") + 1]
    os.write(2, f"\n{name}: interrupted\n".encode(errors="replace"))
    os._exit(INTERRUPTED)


_end.is_for_imports = True  # type: ignore[attr-defined]  # this file may be executed twice, so the function may be two


def end_in_order(code: int) -> None:
    """Let Ctrl-C, once Python begins to shut down, end the process with `code` and without a traceback.

    It then waits for no thread any more, but what was registered with `atexit` (processes and files to remove) is done
    still, and cannot be interrupted. Call it when a command has ended. Outside of the main thread nothing happens.
    """

    def finish(number: int, frame: FrameType | None) -> None:
        atexit._run_exitfuncs()
        os._exit(code)

    def begin() -> None:
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, finish)

    if threading.current_thread() is threading.main_thread():
        # Called before Python waits for threads; `atexit` comes after that.
        getattr(threading, "_register_atexit", atexit.register)(begin)
        atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)  # registered last, so called first


@contextmanager
def like_ctrl_c() -> Iterator[StopSignal]:
    """Context in which SIGTERM and SIGHUP do what Ctrl-C does at that moment; tells which one was received.

    A signal that is ignored (SIGHUP under `nohup`) or handled already stays so. Where Ctrl-C is ignored, as in a
    shell's background jobs, `KeyboardInterrupt` is raised. In forked children the signals keep their usual effect.
    Outside of the main thread nothing changes. What `end_on_ctrl_c` has set ends here.
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
    if is_main and hasattr(signal.getsignal(signal.SIGINT), "is_for_imports"):
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield stop
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)
