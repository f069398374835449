"""An event loop whose clock jumps to the next timer in place of waiting for it."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Deadlock(RuntimeError):
    """Everything waits, and no timer is set."""


class _NoWait(selectors.SelectSelector):
    """Tells the loop how long it would have waited."""

    def __init__(self, loop: VirtualTimeLoop) -> None:
        super().__init__()
        self._virtual_loop = loop

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise Deadlock("every coroutine waits for another one")
        if timeout > 0:
            self._virtual_loop.now += timeout
        return []


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop that reads `now` as its time. Nothing from outside the loop may be awaited in it.

    Attributes:
        now: The time, in whatever unit the timers are set in.
    """

    def __init__(self) -> None:
        """Start at time 0."""
        self.now = 0.0
        super().__init__(_NoWait(self))
        self._clock_resolution = 1e-9

    def time(self) -> float:
        """Return the virtual time."""
        return self.now


def run_virtual(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end in virtual time. Raises `Deadlock` if it waits for nothing that can come."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(work)
