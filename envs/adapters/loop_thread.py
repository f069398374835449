"""An asyncio event loop in a thread of its own, for packages whose clients are asynchronous."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class LoopThread:
    """A running event loop; `close` ends it with its thread."""

    def __init__(self, name: str) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, name=name, daemon=True)
        self.thread.start()

    def run(self, call: Callable[..., Awaitable[T]], seconds: float, *args: Any) -> T:
        """Await what `call(*args)` returns, called in the loop. Raises TimeoutError, and cancels, after `seconds`."""

        async def bounded() -> T:
            async with asyncio.timeout(seconds):
                return await call(*args)

        return self.start(bounded()).result()

    def start(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a coroutine in the loop and return its future."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop)

    def close(self, seconds: float = 5.0) -> None:
        """Cancel what still runs, wait for it up to `seconds`, and end the loop and its threads."""
        if self.loop.is_closed():
            return
        try:
            self.run(self._cancel_tasks, seconds)
            self.run(self.loop.shutdown_default_executor, seconds)
        finally:
            self.loop.call_soon_threadsafe(self.loop.stop)
            self.thread.join(seconds)
            if not self.thread.is_alive():
                self.loop.close()

    async def _cancel_tasks(self) -> None:
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
