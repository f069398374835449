"""An event loop on a thread of its own, which goes on while the run's own thread computes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")


class LoopThread:
    """The thread ends with `close`, or with the program."""

    def __init__(self, name: str) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Begin to run a coroutine on the loop; cancelling the future cancels it."""
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop and wait for its result; not to be called on the loop itself."""
        future = self.submit(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()  # after Ctrl-C; without effect if it has ended
            raise

    def is_current(self) -> bool:
        """Return whether the caller runs on this thread."""
        return threading.current_thread() is self._thread

    def call(self, function: Callable[..., object], *args: object) -> None:
        """Call a function on the loop soon."""
        with suppress(RuntimeError):  # closed
            self.loop.call_soon_threadsafe(function, *args)

    def close(self) -> None:
        """Cancel what runs and end the thread."""
        if self.loop.is_closed():
            return
        with suppress(Exception):
            self.submit(_cancel_all()).result(10)
        self.call(self.loop.stop)
        self._thread.join(10)
        if not self._thread.is_alive():
            self.loop.close()


async def _cancel_all() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
