"""The one thread of the process in which BrowserGym runs: its Playwright belongs to the thread that has started it."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, TypeVar

from envs.adapters.schemes import import_extra
from envs.episodes.queue_times import QUEUE_TIMES
from envs.watchdog import Interruption, interrupt_thread
from envs.web.browser.executable import find_browser

T = TypeVar("T")
CLOSED = "MAP * ~NOTFOUND , EXCLUDE 127.0.0.1 , EXCLUDE localhost"
LOOK_S = 0.5


class _Call(NamedTuple):
    function: Callable[..., Any]
    args: tuple[Any, ...]
    future: Future[Any]
    start_event: threading.Event


class _Thread:
    """A thread that makes calls one after the other. It is a daemon: a process that ends does not wait for it."""

    def __init__(self) -> None:
        self.calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._driver: Any = None  # Playwright's process, once it has been ended
        self._thread = threading.Thread(target=self._work, daemon=True, name="browsergym")
        self._thread.start()

    def _work(self) -> None:
        with suppress(Interruption):
            while (call := self.calls.get()) is not None:
                call.start_event.set()
                try:
                    call.future.set_result(call.function(*call.args))
                except BaseException as error:
                    call.future.set_exception(error)
        with suppress(Exception):  # its event loop is closed: it would complain of that when it is collected
            self._driver._transport.close()

    def give_up(self, driver: Any) -> None:
        """End the thread and Playwright's driver, after which Playwright waits in a loop; fail calls not begun."""
        self._driver = driver
        with suppress(Exception):
            os.kill(driver.pid, signal.SIGKILL)
        with suppress(Empty):
            while (call := self.calls.get_nowait()) is not None:
                call.future.set_exception(TimeoutError("BrowserGym did not answer an earlier call"))
        self.calls.put(None)
        if self._thread.ident is not None:
            interrupt_thread(self._thread.ident)


class Worker:
    """Calls functions one after the other in a thread of its own; one that hangs is given up with all browsers."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: _Thread | None = None
        self.thread = 0  # the number of the thread; what an earlier one has made cannot be used any more

    def call(self, function: Callable[..., T], *args: Any, seconds: float) -> T:
        """Return what the function returns. Raises TimeoutError once it has run for `seconds`, without its wait."""
        call = _Call(function, args, Future(), threading.Event())
        with self._lock:
            thread = self._thread = self._thread or _Thread()
            thread.calls.put(call)
        with QUEUE_TIMES.waiting():
            while not call.start_event.wait(LOOK_S):
                if call.future.done():
                    break
        try:
            return call.future.result(seconds)
        except TimeoutError:
            if call.future.done():
                raise
            self._give_up(thread)
            raise TimeoutError(f"BrowserGym did not answer within {seconds:g} s") from None

    def _give_up(self, thread: _Thread) -> None:
        """End the driver, and with it the browser, on which the thread waits; the next call gets a new thread."""
        core: Any = import_extra("browsergym.core", "browsergym")
        with self._lock:
            if self._thread is not thread:
                return
            self._thread, self.thread = None, self.thread + 1
            driver: Any = None
            with suppress(Exception):
                playwright, core._PLAYWRIGHT = core._PLAYWRIGHT, None
                driver = playwright._impl_obj._connection._transport._proc
            thread.give_up(driver)


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
