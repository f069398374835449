"""Contexts of a browser beside those of episodes: one that waits for the next, and those that are being closed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

from envs.web.browser.tabs import LOAD_S, Tabs

MOST_CLOSING = 4  # an episode that ends while as many are being closed waits for one of them
CLOSE_S = 5.0


class Spares:
    """The first tab of the next episode, opened while others are played, and contexts that close behind their episodes.

    A spare is a fresh context that has shown nothing but an empty page. It is used once, and never in place of one that
    begins with stored cookies. All methods run on the browser's loop.

    Args:
        new_context: Makes a context in the browser that runs; None if there is none.
    """

    def __init__(self, new_context: Callable[[], Awaitable[Any]]) -> None:
        self._new_context = new_context
        self._spare: Tabs | None = None
        self._filling: asyncio.Task | None = None
        self._has_taker = False  # an episode waits for the spare that is being made
        self._closing: set[asyncio.Task] = set()

    @property
    def num_closing(self) -> int:
        """How many contexts are being closed."""
        return len(self._closing)

    async def take(self) -> Tabs | None:
        """Return the spare, which one episode waits for while it is being made; None if there is none that works."""
        if self._filling is not None and not self._has_taker:
            self._has_taker = True
            try:
                await asyncio.wait([self._filling], timeout=LOAD_S)
            finally:
                self._has_taker = False
        tabs, self._spare = self._spare, None
        if tabs is not None and (tabs.has_crashed or len(tabs.pages) != 1 or not tabs.context.browser.is_connected()):
            await self.close(tabs.context)
            return None
        return tabs

    def fill(self) -> None:
        """Begin to make a spare, if there is none; one that cannot be made is left out."""
        if self._spare is None and self._filling is None:
            self._filling = asyncio.ensure_future(self._fill())

    def close_soon(self, context: Any) -> None:
        """Begin to close a context."""
        task = asyncio.ensure_future(close_context(context))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def close(self, context: Any) -> None:
        """Begin to close a context; wait only if too many are being closed."""
        self.close_soon(context)
        while len(self._closing) > MOST_CLOSING:
            await asyncio.wait(self._closing, return_when=asyncio.FIRST_COMPLETED)

    async def end(self) -> None:
        """Give up the spare of a browser that has ended; wait for what is being closed."""
        if self._filling is not None:
            self._filling.cancel()
        self._spare = None
        tasks = [*self._closing, *([self._filling] if self._filling else [])]
        if tasks:
            await asyncio.wait(tasks, timeout=CLOSE_S)
        self._spare = self._filling = None

    async def _fill(self) -> None:
        context = None
        try:
            context = await self._new_context()
            if context is None:
                return
            tabs = Tabs(context)
            await asyncio.wait_for(tabs.open(), LOAD_S)
            self._spare = tabs
        except Exception:  # the next episode makes its own context, and tells of what fails
            if context is not None:
                await self.close(context)
        finally:
            self._filling = None


async def close_context(context: Any) -> None:
    """Close a context, with a deadline; what fails has failed with its browser."""
    with contextlib.suppress(Exception):
        await asyncio.wait_for(context.close(), CLOSE_S)
