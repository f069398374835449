"""Engines that sample nothing and take the time of sampling."""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Sequence
from itertools import count
from typing import NamedTuple

from rl.policy.pool.routing import Router


class Speed(NamedTuple):
    """How fast an engine is.

    A step samples one token of each active request and takes `step + row * active` units of time. Reading a context
    again takes `prefill` for each of its tokens, in token steps.
    """

    slots: int
    step: float = 1.0
    row: float = 0.0
    prefill: float = 0.001


class _Engine:
    """Continuous batching: active requests advance together, others wait in the order in which they came."""

    def __init__(self, speed: Speed) -> None:
        self.speed, self.loop = speed, asyncio.get_running_loop()
        self.busy = 0.0  # active requests, integrated over time
        self.working = 0.0  # time with an active request
        self._active: list[tuple[float, int, int, asyncio.Future[None]]] = []
        self._waiting: deque[tuple[float, int, asyncio.Future[None]]] = deque()
        self._order = count()
        self._progress, self._since, self._paused = 0.0, self.loop.time(), False
        self._timer: asyncio.TimerHandle | None = None

    def request(self, tokens: float, context: int) -> asyncio.Future[None]:
        future = self.loop.create_future()
        self._advance()
        self._waiting.append((tokens, context, future))
        self._fill()
        return future

    def set_paused(self, paused: bool) -> None:
        self._advance()
        self._paused = paused
        self._set_timer()

    def read_again(self) -> None:
        """Make every active request compute its context again, behind new weights."""
        self._advance()
        now = self._progress
        self._active = [
            (end + self.speed.prefill * context, order, context, future) for end, order, context, future in self._active
        ]
        heapq.heapify(self._active)
        self._progress = now
        self._set_timer()

    def _fill(self) -> None:
        while self._waiting and len(self._active) < self.speed.slots:
            tokens, context, future = self._waiting.popleft()
            heapq.heappush(self._active, (self._progress + tokens, next(self._order), context, future))
        self._set_timer()

    def _advance(self) -> None:
        """Account for the time since the last change."""
        now = self.loop.time()
        if self._active and not self._paused:
            self._progress += (now - self._since) / self._step()
            self.busy += (now - self._since) * len(self._active)
            self.working += now - self._since
        self._since = now

    def _step(self) -> float:
        return self.speed.step + self.speed.row * len(self._active)

    def _set_timer(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None
        if self._active and not self._paused:
            left = max(0.0, self._active[0][0] - self._progress) * self._step()
            self._timer = self.loop.call_later(left, self._finish)

    def _finish(self) -> None:
        self._timer = None
        self._advance()
        while self._active and self._active[0][0] <= self._progress + 1e-6:
            future = heapq.heappop(self._active)[3]
            if not future.done():
                future.set_result(None)
        self._fill()


class Engines:
    """Engines among which groups are distributed by the product's own `Router`."""

    def __init__(
        self, number: int, speed: Speed, sync: float, *, colocated: bool, slowness: Sequence[float] = ()
    ) -> None:
        """Take the time that new weights take, and whether the engines stand still while the trainer computes.

        A step of an engine takes `slowness` times as long as `speed` says, for each engine; () for 1 each.
        """
        factors = slowness or [1.0] * number
        self._engines = [_Engine(speed._replace(step=speed.step * x, row=speed.row * x)) for x in factors]
        self._router, self._all = Router(number), range(number)
        self._sync, self._colocated = sync, colocated
        self.speed = speed

    async def sample(self, session: str, tokens: float, context: int) -> None:
        """Return once a reply of so many tokens is sampled."""
        await self._engines[self._router.choose(session, self._all)].request(tokens, context)

    def release(self, session: str) -> None:
        """Note the end of an episode."""
        self._router.release(session)

    def pause(self) -> None:
        """Stand still until `sync_weights`, if trainer and engines share their devices."""
        if self._colocated:
            self._set_paused(True)

    def sync_weights(self) -> None:
        """Stand still while the weights are loaded, and read all contexts again after it."""
        self._set_paused(True)
        asyncio.get_running_loop().call_later(self._sync, self._go_on)

    def _go_on(self) -> None:
        for engine in self._engines:
            engine.read_again()
        self._set_paused(False)

    def _set_paused(self, paused: bool) -> None:
        for engine in self._engines:
            engine.set_paused(paused)

    def shares(self) -> tuple[float, float]:
        """Return the share of slots that were in use, and of time in which an engine was at work."""
        now = asyncio.get_running_loop().time()
        number = len(self._engines)
        busy = sum(engine.busy for engine in self._engines) / (number * self.speed.slots * now)
        return busy, sum(engine.working for engine in self._engines) / (number * now)
