"""A worker's process as its run sees it: calling it from an event loop, and whose call it died of."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from envs.watchdog import EXIT_CODE, GRACE_S, WATCHDOG
from rl.processes.child import ChildProcess
from rl.processes.host import Host, Place
from rl.rollout.workers.messages import Answer, Call

SILENCE_S = 10.0  # beyond the deadline of a call, after which a process that says nothing is killed


class WorkerLost(Exception):
    """The process ended before it had answered a call.

    Attributes:
        is_suspect: Whether the call was being made at that moment, and did not wait for others.
        overrun_s: If the process was ended because this call took too long: when it began, by `time.monotonic`.
    """

    def __init__(self, text: str, *, is_suspect: bool, overrun_s: float | None = None) -> None:
        super().__init__(text)
        self.is_suspect, self.overrun_s = is_suspect, overrun_s


@dataclass(slots=True)
class _Pending:
    """A call without an answer. `waits` says that it is made on the worker's main thread, after those before it."""

    call: Call
    future: asyncio.Future[Answer]
    waits: bool


class WorkerProcess(ChildProcess):
    """The process of a worker, as `ChildProcess` says."""

    def __init__(self, name: str, host: Host) -> None:
        self._pending: dict[int, _Pending] = {}  # in the order in which they were sent
        self._limit_s = 0.0  # longest deadline of a pending call
        super().__init__(name, "rl.rollout.workers.server", WATCHDOG.budgets, place=Place(host))

    @property
    def is_refused(self) -> bool:
        """Whether no other process of the worker would be started either."""
        return self._popen.is_refused

    async def call(self, call: Call, *, waits: bool) -> Answer:
        """Make a call and return its answer. Raises `WorkerLost` if the process ends before.

        `waits` says that the environment never waits for anything, so that the worker calls it on its main thread.
        """
        loop = asyncio.get_running_loop()
        if self.end:
            raise WorkerLost(self.end, is_suspect=False)
        self._attach(loop)
        pending = _Pending(call, loop.create_future(), waits)
        if not self._pending:
            self._silence_start, self._limit_s = time.monotonic(), 0.0
        self._pending[call.number] = pending
        self._limit_s = max(self._limit_s, call.seconds or WATCHDOG.budgets.load)
        self.send(call)
        self._start_ticks()
        return await pending.future

    def _is_expected(self) -> bool:
        """See `ChildProcess`."""
        return bool(self._pending)

    def _max_silence_s(self) -> float:
        """See `ChildProcess`."""
        return self._limit_s + GRACE_S + SILENCE_S

    def _on_new_loop(self) -> None:
        """See `ChildProcess`."""
        self._pending.clear()  # their answers are ignored

    def _on_message(self, message: Answer) -> None:
        """See `ChildProcess`."""
        pending = self._pending.pop(message.number, None)
        if pending is not None and not pending.future.done():  # otherwise nobody waits for it any more
            pending.future.set_result(message)

    def _on_end(self, code: int, *, is_late: bool) -> None:
        """Fail all calls."""
        pending, self._pending = list(self._pending.values()), {}
        at_head = next((one for one in pending if one.waits), None)  # the one that the main thread was making
        for one in pending:
            if one.future.done():
                continue
            is_suspect = (one is at_head or not one.waits) and not self._popen.fault
            seconds, start = one.call.seconds, self._silence_start
            was_long = seconds is not None and time.monotonic() - start >= seconds
            is_overrun = is_suspect and was_long and (is_late or (code == EXIT_CODE and one.waits))
            lost = WorkerLost(self.end, is_suspect=is_suspect, overrun_s=start if is_overrun else None)
            one.future.set_exception(lost)
