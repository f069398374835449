"""What a change of weights means for episodes in flight: they go on, or it waits for replies, episodes or versions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from types import TracebackType

from rl.policy.pool.pinned import PinnedEngine
from rl.rollout.runner import Runner
from rl.train.scheduling.scheduler import Scheduler
from rl.train.seats.trainees import Trainee


@dataclass
class Boundary:
    """Episodes continue with new weights, behind the tokens that they have; each token records its version.

    Attributes:
        settle: Awaited before the weights change, while the engines sample.
        reopen: Called after that.
    """

    settle: Callable[[], Awaitable[None]]
    reopen: Callable[[], None] = lambda: None


@dataclass
class ReplyGate(AbstractAsyncContextManager["ReplyGate"]):
    """Counts the replies that are being sampled, and lets no other one begin while it is closed.

    Each reply is sampled within `async with gate`.
    """

    num_inside: int = 0
    _open: asyncio.Event = field(default_factory=asyncio.Event)
    _empty: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        """Open the gate."""
        self._open.set()

    async def __aenter__(self) -> ReplyGate:
        """Wait until the gate is open."""
        await self._open.wait()
        self.num_inside += 1
        self._empty.clear()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Count a reply as ended, however it did."""
        self.num_inside -= 1
        if not self.num_inside:
            self._empty.set()

    async def drain(self, stopping: asyncio.Event) -> None:
        """Close the gate, and wait until no reply is being sampled or `stopping` is set."""
        self._open.clear()
        if not self.num_inside:
            return
        waiters = [asyncio.ensure_future(event.wait()) for event in (self._empty, stopping)]
        try:
            await asyncio.wait(waiters, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for waiter in waiters:
                waiter.cancel()

    def reopen(self) -> None:
        """Open the gate."""
        self._open.set()


async def _nothing() -> None:
    """Wait for nothing."""


def open_boundary(in_flight: str, scheduler: Scheduler, runner: Runner, trainees: Iterable[Trainee]) -> Boundary:
    """Return what happens between two versions of the weights, by a name of `rl.schedule.IN_FLIGHT`."""
    if in_flight == "drain":
        return Boundary(scheduler.drain)
    if in_flight == "drain-turns":
        gate = ReplyGate()
        runner.reply_gate = gate
        return Boundary(lambda: gate.drain(scheduler.stopping), gate.reopen)
    if in_flight == "pin":
        engines = [one.policy for one in trainees if isinstance(one.policy, PinnedEngine)]

        async def settle() -> None:
            for engine in engines:
                while not engine.make_room(scheduler.progress.open) and not scheduler.stopping.is_set():
                    await scheduler.wait_for_group()

        return Boundary(settle)
    return Boundary(_nothing)
