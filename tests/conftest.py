"""What every test may rely on."""

from __future__ import annotations

import signal


def pytest_configure() -> None:
    """Hear Ctrl-C even in a suite that a shell started in the background, whose children would not hear it either."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
