"""One Chromium for this process, driven on the event loop of a thread of its own, and started again when it dies."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import random
import signal
import threading
import time
import weakref
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from envs.web.browser.executable import find_browser
from envs.web.browser.folders import BrowserFolders, TempFolder
from envs.web.browser.places import Places
from envs.web.browser.renderers import renderers_above, resident_bytes, zygotes
from envs.web.browser.server import DOMAIN, SiteServer
from envs.web.browser.spares import Spares
from envs.web.page import VIEWPORT, BrowserFault
from sandboxes.extras import install_command

T = TypeVar("T")

LAUNCH_S, CLOSE_S, ANSWER_S = 30.0, 5.0, 5.0
GRACE_S = 5.0  # beyond the deadline of an operation, within which the loop must have given it up
MEMORY_LIMIT = 1_000_000_000  # bytes of one renderer, beyond which its page is ended
WATCH_S = 0.1
KILLED_S = 10.0  # after the end of a renderer, within which its page learns of it
FLAGS = (
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--js-flags=--max-old-space-size=256",
)
CONTEXT = {
    "viewport": dict(zip(("width", "height"), VIEWPORT, strict=True)),
    "locale": "en-US",
    "timezone_id": "UTC",
    "reduced_motion": "reduce",
    "service_workers": "block",
    "accept_downloads": False,
}


class BrowserHost:
    """A browser, its driver and the server of its sites, which all open pages of the process share.

    Only the server's port can be reached from a page: every other host name and address is unknown to the browser.

    Args:
        executable: The browser's program; None to look for one.
        headed: Whether it has a window.
        reachable: Hosts with their ports, such as `127.0.0.1:7770`, that pages can reach too.

    Attributes:
        places: How many pages may be open at once.
        server: Serves the open sites.
        spares: The context of the next episode, and those that are being closed.
        restarts: How often the browser was started again after it had died.
        users: The pages that are open or between two episodes.
    """

    def __init__(self, executable: str | None, headed: bool = False, reachable: tuple[str, ...] = ()) -> None:
        self.executable, self.headed, self.reachable = executable, headed, reachable
        self.places = Places()
        self.server = SiteServer()
        self.spares = Spares(self._spare_context)
        self.restarts = 0
        self.users: weakref.WeakSet[Any] = weakref.WeakSet()
        self._has_died = False
        self._driver: Any = None
        self._browser: Any = None
        self._folders: BrowserFolders | None = None
        self._temp_folder: TempFolder | None = None  # where a browser leaves files that it makes as it ends
        self._watch: asyncio.Task | None = None
        self._killed: dict[
            int, float
        ] = {}  # renderers that took too much memory, and when, on the clock of `monotonic`
        self._loop = asyncio.new_event_loop()
        self._lock = asyncio.Lock()
        threading.Thread(target=self._run, name="browser", daemon=True).start()
        atexit.register(self.close)

    def call(self, function: Callable[..., Coroutine[Any, Any, T]], *args: Any, deadline_s: float) -> T:
        """Run a coroutine function on the browser's loop and return its result.

        Raises BrowserFault if it has not ended `GRACE_S` after its deadline, which it must keep to by itself.
        """
        future = asyncio.run_coroutine_threadsafe(function(*args), self._loop)
        try:
            return future.result(deadline_s + GRACE_S)
        except TimeoutError:
            if not future.done():
                future.cancel()
                raise BrowserFault(f"the browser did not answer within {deadline_s + GRACE_S:g} s") from None
            raise
        except BaseException:  # the caller was interrupted
            future.cancel()
            raise

    async def new_context(self, storage: str | None = None) -> Any:
        """Return a fresh context, after starting the browser if it does not run. Raises BrowserFault if it cannot.

        Args:
            storage: File of the cookies and the local storage that it begins with.
        """
        async with self._lock:
            for attempt in range(3):
                try:
                    if self._browser is None or not self._browser.is_connected():
                        await self._start()
                    context = self._browser.new_context(**CONTEXT, storage_state=storage)
                    return await asyncio.wait_for(context, LAUNCH_S)
                except ValueError:
                    raise
                except Exception as error:
                    self._has_died = True
                    await self._drop()
                    if attempt == 2:
                        raise BrowserFault(f"Chromium cannot be started: {first_line(error)}") from error
        raise AssertionError

    async def _spare_context(self) -> Any:
        async with self._lock:
            if self._browser is None or not self.users:
                return None
            return await asyncio.wait_for(self._browser.new_context(**CONTEXT), LAUNCH_S)

    async def invalidate(self, browser: Any) -> None:
        """Give up the browser, in which something has failed, and its driver; the next context starts new ones.

        A browser that answers, and one that has been replaced meanwhile, serves other episodes and stays.
        """
        async with self._lock:
            if self._browser is browser and not await _answers(browser):
                self._has_died = True
                await self._drop()

    def was_stopped_for_memory(self) -> bool:
        """Whether a page was ended lately because it took too much memory; each such end answers one page."""
        now = time.monotonic()
        recent = [pid for pid, killed_at in self._killed.items() if now - killed_at < KILLED_S]
        self._killed = {pid: self._killed[pid] for pid in recent[1:]}
        return bool(recent)

    def leave(self, page: Any) -> None:
        """Count a page out, and end the browser after the last one; a later page starts it again."""
        self.users.discard(page)
        if not self.users and self._driver is not None:
            with contextlib.suppress(BrowserFault):
                self.call(self._drop_unused, deadline_s=3 * CLOSE_S)

    def close(self) -> None:
        """Stop browser, driver, server and loop. The host cannot be used afterwards."""
        atexit.unregister(self.close)
        if self._loop.is_closed() or not self._loop.is_running():
            return
        with contextlib.suppress(Exception):
            asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(3 * CLOSE_S)
        self._remove_folders()  # at the end of Python, threads can no longer be started for it
        self.server.close()
        self._loop.call_soon_threadsafe(self._loop.stop)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    async def _start(self) -> None:
        self._has_died |= self._browser is not None
        await self._drop()
        try:
            from playwright.async_api import async_playwright
        except ImportError as error:
            raise ValueError(f"engine 'chromium' needs playwright: {install_command('web')} ({error})") from None
        state = random.getstate()  # Playwright draws a name from the process's generator
        try:
            self._driver = await asyncio.wait_for(async_playwright().start(), LAUNCH_S)
        finally:
            random.setstate(state)
        path = find_browser(self.executable, self._driver.chromium.executable_path, headed=self.headed)
        places = {f"*.{DOMAIN}": f"127.0.0.1:{self.server.port}", **{each: each for each in self.reachable}}
        rules = ", ".join(f"MAP {name} {place}" for name, place in {**places, "*": "~NOTFOUND"}.items())
        arguments = [*FLAGS, f"--host-resolver-rules={rules}", *(["--no-sandbox"] if _is_root() else [])]
        self._temp_folder = await asyncio.to_thread(TempFolder)
        launch = self._driver.chromium.launch(
            executable_path=path,
            args=arguments,
            headless=not self.headed,
            timeout=1000 * LAUNCH_S,
            env={**os.environ, "TMPDIR": self._temp_folder.path},
        )
        launch_time = time.time()
        self._browser = await asyncio.wait_for(launch, LAUNCH_S + 1)
        pid = await _process_id(self._browser)
        self._folders = BrowserFolders(pid, launch_time)
        self.restarts += self._has_died
        self._has_died = False
        self._watch = asyncio.create_task(self._watch_memory(self._browser, pid))

    async def _stop(self) -> None:
        async with self._lock:
            await self._drop()

    async def _drop_unused(self) -> None:
        async with self._lock:
            if not self.users:
                await self._drop()

    async def _drop(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        browser, driver, self._browser, self._driver = self._browser, self._driver, None, None
        for stop in (browser and browser.close, driver and driver.stop):
            if stop:
                with contextlib.suppress(Exception):
                    await asyncio.wait_for(stop(), CLOSE_S)
        await self.spares.end()
        await asyncio.to_thread(self._remove_folders)

    def _remove_folders(self) -> None:
        """Remove what the browser has left, once it has ended."""
        folders, self._folders = self._folders, None
        temp_folder, self._temp_folder = self._temp_folder, None
        for each in (folders, temp_folder):
            if each is not None:
                each.remove()

    async def _watch_memory(self, browser: Any, pid: int) -> None:
        """End renderers that have grown beyond `MEMORY_LIMIT`."""
        with contextlib.suppress(Exception):
            forkers = await asyncio.to_thread(zygotes, pid)
            devtools = None if forkers else await browser.new_browser_cdp_session()
            while True:
                await asyncio.sleep(WATCH_S)
                if devtools is None:
                    large = renderers_above(MEMORY_LIMIT, forkers)
                else:
                    processes = (await devtools.send("SystemInfo.getProcessInfo"))["processInfo"]
                    pids = [process["id"] for process in processes if process["type"] == "renderer"]
                    large = [pid for pid in pids if resident_bytes(pid) > MEMORY_LIMIT]
                for each in large:
                    self._killed[each] = time.monotonic()
                    os.kill(each, signal.SIGKILL)


Key = tuple[str | None, bool, tuple[str, ...]]
_hosts: dict[Key, BrowserHost] = {}
_hosts_lock = threading.Lock()


def shared_host(executable: str | None, headed: bool = False, reachable: tuple[str, ...] = ()) -> BrowserHost:
    """Return the process's host for these arguments of BrowserHost; it starts the browser with its first page."""
    key = (executable, headed, reachable)
    with _hosts_lock:
        if key not in _hosts:
            _hosts[key] = BrowserHost(*key)
        return _hosts[key]


def _forget_hosts() -> None:
    """In a forked child: the threads of the parent's hosts are not there."""
    global _hosts_lock
    _hosts_lock = threading.Lock()
    for host in _hosts.values():
        atexit.unregister(host.close)
    _hosts.clear()


os.register_at_fork(after_in_child=_forget_hosts)


async def _answers(browser: Any) -> bool:
    """Whether a browser still does what it is asked; `is_connected` says so of one whose driver is dead, too."""
    try:
        return bool(await asyncio.wait_for(_process_id(browser), ANSWER_S))
    except Exception:
        return False


async def _process_id(browser: Any) -> int:
    """The browser's process; 0 if it does not say so."""
    devtools = await browser.new_browser_cdp_session()
    processes = (await devtools.send("SystemInfo.getProcessInfo"))["processInfo"]
    await devtools.detach()
    return next((process["id"] for process in processes if process["type"] == "browser"), 0)


def _is_root() -> bool:
    return hasattr(os, "geteuid") and os.geteuid() == 0


def first_line(error: BaseException) -> str:
    """Return the first line of an error's text, of 300 characters at most; the name of its class if it has none."""
    return (str(error).strip() or type(error).__name__).splitlines()[0][:300]
