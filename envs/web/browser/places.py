"""How many pages are open in a browser at once; further ones wait for a place, in the order in which they came."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections import deque

from envs.episodes.queue_times import QUEUE_TIMES
from envs.watchdog import WATCHDOG
from envs.web.page import BrowserFault

VARIABLE = "TURNWISE_BROWSER_PAGES"
MOST_PAGES = 16
NOTICE_S = 60.0  # without a place becoming free, after which one line says what episodes wait for
LOOK_S = 0.5


class Places:
    """Places for pages, each with a context of its own, which one browser shows at a time.

    A page has a place from the start of an episode to its end. The wait for one counts for no deadline of a call or an
    episode (`envs.episodes.queue_times`); it ends with a BrowserFault if no page gives its place back for as long as
    an episode may take.

    Args:
        most: How many there are; None for the variable `TURNWISE_BROWSER_PAGES`, else 16.

    Raises:
        ValueError: The variable is no whole number above 0.
    """

    def __init__(self, most: int | None = None) -> None:
        self.most = most or _from_environment()
        self._lock = threading.RLock()  # a finalizer may run within a block of the same thread
        self._holders: dict[int, weakref.finalize] = {}
        self._waiting: deque[tuple[threading.Event, object]] = deque()
        self._last_change = time.monotonic()
        self._has_reported = False

    @property
    def num_taken(self) -> int:
        """How many pages have a place."""
        return len(self._holders)

    @property
    def num_waiting(self) -> int:
        """How many pages wait for one."""
        return len(self._waiting)

    def take(self, page: object) -> None:
        """Return when `page` has a place; at once if it has one already. Raises BrowserFault if none becomes free."""
        my_turn = threading.Event()
        with self._lock:
            if id(page) in self._holders:
                return
            if len(self._holders) < self.most and not self._waiting:
                self._give(page)
                return
            self._waiting.append((my_turn, page))
        try:
            with QUEUE_TIMES.waiting():
                while not my_turn.wait(LOOK_S):
                    self._check_progress()
        except BaseException:
            with self._lock:
                if my_turn.is_set():
                    self.give_back(page)
                else:
                    self._waiting.remove((my_turn, page))
            raise

    def give_back(self, page: object) -> None:
        """Give the place of `page` to the one that has waited longest. It does nothing for a page without a place."""
        self._free(id(page))

    def _give(self, page: object) -> None:
        self._last_change = time.monotonic()
        self._holders[id(page)] = weakref.finalize(page, self._free, id(page))
        self._holders[id(page)].atexit = False

    def _free(self, key: int) -> None:
        with self._lock:
            finalizer = self._holders.pop(key, None)
            if finalizer is None:
                return
            finalizer.detach()
            self._last_change = time.monotonic()
            if self._waiting:
                turn, page = self._waiting.popleft()
                self._give(page)
                turn.set()

    def _check_progress(self) -> None:
        idle_s = time.monotonic() - self._last_change
        what = f"{self.most} pages are open in the browser, the most at once ({VARIABLE}), and none was closed"
        if idle_s > WATCHDOG.budgets.episode:
            raise BrowserFault(f"{what} for {idle_s:.0f} s")
        if idle_s > NOTICE_S and not self._has_reported:
            self._has_reported = True
            WATCHDOG.report(f"waiting: {what} for {idle_s:.0f} s")


def _from_environment() -> int:
    text = os.environ.get(VARIABLE, "").strip()
    if not text:
        return MOST_PAGES
    if not (text.isascii() and text.isdigit() and 0 < int(text) <= 10_000):
        raise ValueError(f"{VARIABLE}={text!r} is not a whole number above 0, such as {MOST_PAGES}")
    return int(text)
