"""The one thread of the process in which BrowserGym runs: its Playwright belongs to the thread that has started it."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from envs.adapters.schemes import import_extra
from envs.episodes.queue_times import QUEUE_TIMES
from envs.web.browser.executable import find_browser

T = TypeVar("T")
CLOSED = "MAP * ~NOTFOUND , EXCLUDE 127.0.0.1 , EXCLUDE localhost"
LOOK_S = 0.5


class Worker:
    """Calls functions one after the other in a thread of its own; one that hangs is given up with all browsers."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None
        self.thread = 0  # the number of the thread; what an earlier one has made cannot be used any more

    def call(self, function: Callable[..., T], *args: Any, seconds: float) -> T:
        """Return what the function returns. Raises TimeoutError once it has run for `seconds`, without its wait."""
        with self._lock:
            self._pool = self._pool or ThreadPoolExecutor(1, thread_name_prefix="browsergym")
            pool = self._pool
            begun = threading.Event()
            future: Future[T] = pool.submit(_run, begun, function, args)
        with QUEUE_TIMES.waiting():
            while not begun.wait(LOOK_S):
                if future.done():
                    break
        try:
            return future.result(seconds)
        except TimeoutError:
            if future.done():
                raise
            self._give_up(pool)
            raise TimeoutError(f"BrowserGym did not answer within {seconds:g} s") from None

    def _give_up(self, pool: ThreadPoolExecutor) -> None:
        """End the driver, and with it the browser, on which the thread waits; the next call gets a new thread."""
        core: Any = import_extra("browsergym.core", "browsergym")
        with self._lock, suppress(Exception):
            playwright, core._PLAYWRIGHT = core._PLAYWRIGHT, None
            os.kill(playwright._impl_obj._connection._transport._proc.pid, signal.SIGKILL)
        with self._lock:
            if self._pool is pool:
                self._pool, self.thread = None, self.thread + 1
        pool.shutdown(wait=False, cancel_futures=True)


def _run(begun: threading.Event, function: Callable[..., T], args: Sequence[Any]) -> T:
    begun.set()
    return function(*args)


@contextmanager
def launches(executable: str | None, rules: str) -> Iterator[None]:
    """Context in which BrowserGym's browsers, of which only one takes a program's path, are ours and confined.

    Args:
        executable: The browser's program; None to look for one.
        rules: Chromium's rules for names of hosts; "" for none.
    """
    api = import_extra("playwright.sync_api", "browsergym")
    launch = api.BrowserType.launch

    def our_launch(self: Any, **options: Any) -> Any:
        options.setdefault("executable_path", find_browser(executable, self.executable_path))
        if rules:
            options["args"] = [*(options.get("args") or ()), f"--host-resolver-rules={rules}"]
        return launch(self, **options)

    api.BrowserType.launch = our_launch
    try:
        yield
    finally:
        api.BrowserType.launch = launch


WORKER = Worker()
