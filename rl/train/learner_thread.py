"""A thread for the learner, so that the event loop goes on sampling while it computes."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


class LearnerThread:
    """Runs one coroutine at a time, in an event loop and on a thread of its own.

    A thread is enough, since torch releases the interpreter's lock while it computes. What the coroutine reads must not
    change meanwhile, and nobody else may use the model that it trains; the sampler has a copy
    (`rl.policy.weight_copies`).
    """

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="learner")

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of `work`, or raise what it raises. A caller that is cancelled waits for its end, too."""
        future = asyncio.get_running_loop().run_in_executor(self._executor, asyncio.run, work)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            await asyncio.wait([future])  # half an optimiser step would be left in the weights
            raise

    def close(self) -> None:
        """End the thread once its work is done."""
        self._executor.shutdown()
