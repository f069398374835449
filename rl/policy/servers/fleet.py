"""The servers of a run: which of them can be asked, and that each has the newest weights before it is."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence

from rl.policy.servers.connection import ServerLost
from rl.policy.servers.server import Expected, ServerUnfit, VLLMServer
from rl.policy.servers.weights import WeightFolder, Weights
from rl.processes.timeout import SERVER_VARIABLE, answer_timeout_s, server_timeout_s

POLL_S = 5.0  # between questions to a server that has requests, whether it is there
RETRY_S = 1.0  # between attempts to reach a server that is lost
TICK_S = 0.2
MOST_LOSSES = 3  # of a server in a row, without a reply in between
READY, LOST, UNFIT = "ready", "lost", "unfit"

log = logging.getLogger(__name__)


class Fleet:
    """Servers, by their numbers. All methods but the constructor run on one event loop.

    Attributes:
        num_returns: How often a server that was lost came back.
    """

    def __init__(
        self, urls: Sequence[str], expected: Expected, folder: WeightFolder, fail: Callable[[str], None]
    ) -> None:
        """Ask nothing yet. `fail` is called with a reason when no server is there any more.

        Raises `ValueError` for a variable of `rl.processes.timeout` that is no number of seconds.
        """
        self._patience_s, timeout_s = server_timeout_s(), answer_timeout_s()
        self.servers = [VLLMServer(url, expected, timeout_s) for url in urls]
        self.num_returns = 0
        self._folder, self._fail = folder, fail
        self._weights: Weights
        self._states, self._reasons = [""] * len(urls), [""] * len(urls)
        self._losses = [0] * len(urls)  # since the last reply
        self._locks = [asyncio.Lock() for _ in urls]
        self._is_open, self._change = False, asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._last_ready = time.monotonic()

    async def open(self, weights: Weights) -> None:
        """Give all servers the first weights; raise what the first one that cannot be used says."""
        self._weights = weights
        indices = range(len(self.servers))
        results = await asyncio.gather(*map(self._give, indices), return_exceptions=True)
        for error in results:
            if isinstance(error, BaseException):
                raise error
        self._is_open = True
        loop = asyncio.get_running_loop()
        self._tasks = [*(loop.create_task(self._tend(index)) for index in indices), loop.create_task(self._watch())]

    async def close(self) -> None:
        """End what waits for servers, and all connections to them."""
        for task in self._tasks:
            task.cancel()
        for server in self.servers:
            server.gone.set()
            await server.connection.close()

    async def push(self, weights: Weights) -> None:
        """Let all servers that can be asked take over weights; nothing is asked of any of them meanwhile.

        One that is lost gets them when it is back.
        """
        self._weights, self._is_open = weights, False
        try:
            await asyncio.gather(*(self._take(index) for index in self._ready()))
        finally:
            self._is_open = True
            self.notify()
        self._folder.delete_before(weights.number)

    async def ready(self, failure: Callable[[], Exception | None], *, is_patient: Callable[[], bool]) -> list[int]:
        """Wait until a server can be asked; return those that can.

        Raises what `failure` returns, if it returns something; where `is_patient()`, waits for ever then.
        """
        while True:
            error = failure()
            if error is not None and not is_patient():
                raise error
            if error is None and self._is_open and (ready := self._ready()):
                return ready
            self._change.clear()
            await self._change.wait()

    def lose(self, index: int, error: ServerLost | ServerUnfit, gone: asyncio.Event | None = None) -> None:
        """Ask a server no more until it has answered again, or not at all if that would not help.

        `gone` is the server's at the time of the request that failed: one that is set says that it is known already.
        """
        if self._states[index] == UNFIT or (gone is not None and gone.is_set()):
            return
        was_ready, self._reasons[index] = self._states[index] == READY, str(error)
        self._losses[index] += was_ready
        is_final = isinstance(error, ServerUnfit) or self._losses[index] > MOST_LOSSES
        self._states[index] = UNFIT if is_final else LOST
        if was_ready or is_final:
            others = len(self._ready())
            log.warning("%s; %s", error, f"{others} others go on" if others else "no other one is there")
        self.servers[index].gone.set()
        self.notify()

    def has_replied(self, index: int) -> None:
        """Note that a server has sampled something."""
        self._losses[index] = 0

    def notify(self) -> None:
        """Let all that wait for a server look again."""
        self._change.set()

    def _ready(self) -> list[int]:
        return [index for index, state in enumerate(self._states) if state == READY]

    async def _give(self, index: int) -> None:
        """Let a server that is not in use have the newest weights, and use it from then on."""
        server = self.servers[index]
        async with self._locks[index]:
            while self._states[index] != READY:
                weights = self._weights
                with self._folder.reading(weights):
                    await server.inspect(weights)
                    await server.take(weights)
                if weights is self._weights:  # else newer ones have come meanwhile
                    server.gone = asyncio.Event()
                    self._states[index] = READY
        self.notify()

    async def _take(self, index: int) -> None:
        """Let a server that is in use take over the newest weights."""
        try:
            async with self._locks[index]:
                with self._folder.reading(self._weights):
                    await self.servers[index].take(self._weights)
        except (ServerLost, ServerUnfit) as error:
            self.lose(index, error)

    async def _tend(self, index: int) -> None:
        """Ask a server that has requests whether it is there, and one that is lost whether it is back."""
        server = self.servers[index]
        while True:
            await asyncio.sleep(RETRY_S if self._states[index] == LOST else POLL_S)
            loss = server.gone
            try:
                if self._states[index] == LOST:
                    await self._give(index)
                    self.num_returns += 1
                    log.warning("%s is back and has got the newest weights", server.url)
                elif self._states[index] == READY and server.tasks and self._is_open:
                    await server.label()
            except (ServerLost, ServerUnfit) as error:
                self.lose(index, error, loss if self._states[index] == READY else None)

    async def _watch(self) -> None:
        """Give up when no server has been there for too long, or none ever will be."""
        while True:
            await asyncio.sleep(TICK_S)
            reasons = "; ".join(dict.fromkeys(self._reasons))
            if self._ready() or not self._is_open:
                self._last_ready = time.monotonic()
            elif set(self._states) == {UNFIT}:
                return self._fail(reasons)
            elif time.monotonic() - self._last_ready > self._patience_s:
                seconds = f"{self._patience_s:g} s ({SERVER_VARIABLE})"
                return self._fail(f"{reasons}; no server came back within {seconds}: start it again")
