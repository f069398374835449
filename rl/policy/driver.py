"""Steps the engines of an event loop together, so that no engine's batches depend on the pace of another."""

from __future__ import annotations

import asyncio
import weakref
from typing import Protocol

QUIET_ROUNDS = 4  # rounds of the event loop that it takes from a reply to the next request of its episode


class Steps(Protocol):
    """What a driver needs of an engine."""

    driver: Driver | None

    def remove_done_requests(self) -> bool:
        """Remove requests that nobody awaits any more; return whether others are open."""

    def step(self) -> bool:
        """Sample tokens for the open requests; return whether at least one of them finished."""

    def fail(self, error: BaseException) -> None:
        """Fail all open requests with `error`."""


_DRIVERS: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, weakref.ref[Driver]] = weakref.WeakKeyDictionary()


class Driver:
    """One task of an event loop that steps all engines with open requests, one step of each in a round.

    Before each round every runnable coroutine reaches its next request, to whichever engine. So which requests an
    engine computes together depends on the episodes alone: not on time, nor on which engine was opened or asked first.
    """

    def __init__(self) -> None:
        self._engines: list[Steps] = []
        self._num_events = 0  # counts new requests and new weights
        self._quiet_rounds = QUIET_ROUNDS  # rounds of the event loop without a new event before the next steps
        self._task: asyncio.Task[None] | None = None

    @classmethod
    def of(cls, loop: asyncio.AbstractEventLoop) -> Driver:
        """Return the driver of an event loop. Its engines keep it alive, the loop does not."""
        reference = _DRIVERS.get(loop)
        driver = reference() if reference else None
        if driver is None:
            driver = cls()
            _DRIVERS[loop] = weakref.ref(driver)
        return driver

    def add(self, engine: Steps, loop: asyncio.AbstractEventLoop) -> None:
        """Take note of a new request of `engine`, and start to step if nothing is stepped in `loop`."""
        if engine not in self._engines:
            self._engines.append(engine)
            self._quiet_rounds = QUIET_ROUNDS
        self._num_events += 1
        if self._task is None or self._task.done():
            self._quiet_rounds = QUIET_ROUNDS
            self._task = loop.create_task(self._drive())
            # An interrupt ends the loop and this task; unread, asyncio would print it once more with a traceback.
            self._task.add_done_callback(lambda task: task.cancelled() or task.exception())

    def wait_for_callers(self) -> None:
        """Let every caller run before the next steps."""
        self._num_events += 1
        self._quiet_rounds = QUIET_ROUNDS

    async def _drive(self) -> None:
        """Step until no request is open."""
        try:
            while True:
                await self._let_callers_run()
                self._engines = [each for each in self._engines if each.driver is self and each.remove_done_requests()]
                if not self._engines:
                    return
                finishes = [self._step(engine) for engine in self._engines]
                self._quiet_rounds = QUIET_ROUNDS if any(finishes) else 1
        except BaseException as error:
            for engine in self._engines:
                if engine.driver is self:  # else this loop is gone, and the engine serves another one
                    engine.fail(error)
            self._engines = []
            if not isinstance(error, Exception):
                raise

    def _step(self, engine: Steps) -> bool:
        """Step an engine, whose failure ends its own requests only; return whether callers have something to do."""
        try:
            return engine.step()
        except Exception as error:
            engine.fail(error)
            return True

    async def _let_callers_run(self) -> None:
        """Yield to the event loop until `_quiet_rounds` rounds in a row brought no new event."""
        quiet, last_event = 0, -1
        while quiet < self._quiet_rounds:
            await asyncio.sleep(0)
            quiet = quiet + 1 if self._num_events == last_event else 0
            last_event = self._num_events
