"""What every test may rely on."""

from __future__ import annotations

import gc
import os
import re
import signal
from collections.abc import Iterator

import pytest

# One thread for each test process: more of them than cores wait for each other at every barrier of OpenMP.
os.environ.setdefault("OMP_NUM_THREADS", "1")


def pytest_configure() -> None:
    """Hear the signals that a shell in the background and `nohup` ignore; children of the suite would ignore them too."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(autouse=True, scope="module")
def frozen_heap() -> Iterator[None]:
    """Leave what a module's tests have cached out of later searches for garbage: a million objects, a tenth of the CPU."""
    yield
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave tests marked `long` out unless `-m` speaks of them: `-m browser` has none, `-m "browser and long"` has."""
    if re.search(r"\blong\b", config.option.markexpr):
        return
    is_long = [item.get_closest_marker("long") is not None for item in items]
    if any(is_long):
        config.hook.pytest_deselected(items=[item for item, long in zip(items, is_long, strict=True) if long])
        items[:] = [item for item, long in zip(items, is_long, strict=True) if not long]
