"""What every test may rely on."""

from __future__ import annotations

import os
import signal

# One thread for each test process: more of them than cores wait for each other at every barrier of OpenMP.
os.environ.setdefault("OMP_NUM_THREADS", "1")


def pytest_configure() -> None:
    """Hear the signals that a shell in the background and `nohup` ignore; children of the suite would ignore them too."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
