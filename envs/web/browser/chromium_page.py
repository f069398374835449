"""A page in a real browser, as an `envs.web.page.Page`."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from envs.suggestions import unknown_message
from envs.web.browser import pointer
from envs.web.browser.actions import ACTION_S, PageActions
from envs.web.browser.host import BrowserHost, first_line, shared_host
from envs.web.browser.spares import close_context
from envs.web.browser.tabs import LOAD_S, Tabs
from envs.web.dom.key_names import check_key
from envs.web.page import VIEWPORT, BrowserFault, PageError, PageHung, Snapshot, Text
from envs.web.site import LiveSite, Site

IDLE_S = 5.0  # that a page is kept for the next episode
OPEN_S = 60.0  # of starting a browser and showing the first page
_ORIGINS = "Object.defineProperty(window, Symbol.for('turnwise.origins'), {value: Object.freeze(%s)});"
_DEATHS = ("has been closed", "Connection closed", "Target closed", "Browser closed", "disconnected")


class ChromiumPage(PageActions):
    """The engine `chromium`: a context of its own in the process's browser for every episode.

    Every action waits until its effects are there: requests, navigations and timers of up to a second. A page that does
    not answer is loaded again and raises PageHung; a browser that has died raises BrowserFault, and the next `open`
    starts another one.
    """

    def __init__(
        self,
        *,
        view: str = "text",
        executable: str | None = None,
        picture_size: tuple[int, int] = VIEWPORT,
        headed: bool = False,
        reachable: tuple[str, ...] = (),
    ) -> None:
        self.view, self.picture_size = view, picture_size
        self._host: BrowserHost = shared_host(executable, headed, reachable)
        self._storage: str | None = None
        self._idle: object | None = None  # while the page is kept for another episode

    def open(self, site: Site | LiveSite) -> None:
        """Begin an episode: drop everything of the last one, then show `site.start`. Raises BrowserFault."""
        self._close_tabs()
        self._host.places.take(self)
        try:
            self._host.users.add(self)
            self._snapshot = Snapshot("", "", ())
            self._start = site.start
            if isinstance(site, LiveSite):
                self._origin, self._origins, self._storage = "", site.origins, site.storage
            else:
                self._origin = self._host.server.add(site)
            try:
                self._host.call(self._open, deadline_s=OPEN_S)
            except BrowserFault:  # a browser that another page's fault has ended is started again
                self._host.call(self._open, deadline_s=OPEN_S)
            self._host.server.check(self._origin)
        except BaseException:
            self.close()
            raise

    def observe(self) -> Snapshot:
        """Return the page as it is now; of one that does not answer, a snapshot that says so."""
        try:
            self._snapshot = self._act(self._read)
        except PageHung as error:
            self._snapshot = Snapshot(self._path(), "", (Text(str(error)),))
        return self._snapshot

    def click(self, index: int) -> None:
        """Click the middle of an element, after scrolling it into view. Raises PageError if something covers it."""
        self._act(self._click, index)

    def type(self, index: int, text: str, *, submit: bool = False) -> None:
        """Replace what a field holds by `text`; with `submit` press Enter in it."""
        self._act(self._type, index, text, submit)

    def select(self, index: int, option: str) -> None:
        """Choose the option with this text in a select."""
        self._act(self._select, index, option)

    def press(self, key: str) -> None:
        """Press a key."""
        check_key(key)
        self._act(self._press, key)

    def click_at(self, x: float, y: float, *, double: bool = False) -> None:
        """Click a point of the viewport."""
        self._act(self._point, pointer.click, x, y, double)

    def type_at(self, x: float, y: float, text: str, *, submit: bool = False) -> None:
        """Click a point and replace what the field there holds. Raises PageError where there is none."""
        self._act(self._point, pointer.type_text, x, y, text, submit)

    def scroll_at(self, x: float, y: float, pixels: int) -> None:
        """Turn the wheel over a point."""
        self._act(self._point, pointer.scroll, x, y, pixels)

    def drag(self, x: float, y: float, to_x: float, to_y: float) -> None:
        """Drag from a point to another."""
        self._act(self._point, pointer.drag, x, y, to_x, to_y)

    def scroll(self, direction: str) -> None:
        """Scroll by most of a screen, "up" or "down"."""
        if direction not in ("up", "down"):
            raise PageError(unknown_message("direction", direction, ("up", "down")))
        self._act(self._scroll, 1 if direction == "down" else -1)

    def back(self) -> None:
        """Go back one page in the history of this tab."""
        self._act(self._back)

    def switch(self, tab: int) -> None:
        """Show the open tab with this place, from 0."""
        count = len(self._live_tabs.pages)
        if not 0 <= tab < count:
            raise PageError(f"there is no tab {tab}; there are {count}, counted from 0")
        self._act(self._switch, tab)

    def picture(self) -> dict[str, Any]:
        """Return the viewport as a block `image_url`, a JPEG; the view "marks" adds the numbers of the elements."""
        boxes = [element.box for element in self._snapshot.elements()] if self.view == "marks" else None
        data = self._act(self._point, pointer.picture, self.picture_size, boxes, ACTION_S)
        return {"type": "image_url", "image_url": {"url": f"data:image/jpeg;base64,{data}"}}

    def inspect(self, url: str, script: str) -> str:
        """Return what a script of the caller's makes of a page, as a text; "" for nothing, or for one that fails.

        Args:
            url: Where to look, in a tab of its own; "" for the page that is shown.
            script: An expression; "" for the page's HTML.
        """
        return self._act(self._inspect, url, script)

    def release(self) -> None:
        """Give back the context, and the place in the browser, that another episode may be waiting for."""
        try:
            self._close_tabs()
        finally:
            self._host.places.give_back(self)

    def rest(self) -> None:
        """End the episode, but keep the page for `restart`: for `IDLE_S`, or not at all if others wait for a place."""
        if self._host.places.num_waiting or self._tabs is None:
            self.release()
        else:
            self._host.call(self._rest, deadline_s=ACTION_S)

    def restart(self, site: Site, name: str, *values: Any) -> str:
        """Begin an episode on the page that `rest` has kept; return what the page does, "" if `open` must be called.

        Args:
            site: Answers from now on.
            name: The page's function under `Symbol.for("turnwise.NAME")`; it returns a text, such as the goal, when the
                episode has begun.
            values: Its arguments.
        """
        if not self._host.call(self._resume, site, deadline_s=ACTION_S):
            return ""
        try:
            return self._act(self._run, name, values)
        except (PageError, PageHung, BrowserFault):
            return ""

    def close(self) -> None:
        """End the episode; the last page of the process ends the browser."""
        self.release()
        self._host.leave(self)

    def _close_tabs(self) -> None:
        self._host.server.remove(self._origin)
        tabs, self._tabs, self._idle = self._tabs, None, None
        if tabs is not None:
            with contextlib.suppress(BrowserFault):
                self._host.call(self._host.spares.close, tabs.context, deadline_s=ACTION_S)

    # On the browser's loop.

    async def _rest(self) -> None:
        self._idle = token = object()
        loop = asyncio.get_running_loop()
        loop.call_later(IDLE_S, lambda: loop.create_task(self._expire(token)))

    async def _resume(self, site: Site) -> bool:
        is_kept, self._idle = self._idle is not None, None
        tabs = self._tabs
        if not is_kept or tabs is None or len(tabs.pages) != 1 or tabs.has_crashed:
            return False
        self._host.server.replace(self._origin, site)
        return True

    async def _expire(self, token: object) -> None:
        if self._idle is not token or self._tabs is None:
            return
        tabs, self._idle, self._tabs = self._tabs, None, None
        self._host.server.remove(self._origin)
        self._host.places.give_back(self)
        await self._host.spares.close(tabs.context)

    def _act(self, function: Callable[..., Coroutine[Any, Any, Any]], *args: Any) -> Any:
        if function != self._read and self._tabs is not None:
            self._tabs.reading = None  # of the page before this action
        try:
            result = self._host.call(self._guarded, partial(function, *args), deadline_s=2 * ACTION_S)
        except (PageError, PageHung):
            self._host.server.check(self._origin)  # an exception of the site's own code comes before what it has led to
            raise
        self._host.server.check(self._origin)
        return result

    async def _guarded(self, action: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """Await an action; say of what fails whether it is the policy's, the page's or the browser's doing."""
        tabs = self._live_tabs
        try:
            if not tabs.pages:
                await self._reopen(tabs)
            tabs.acting = tabs.page
            return await asyncio.wait_for(action(), ACTION_S)
        except (PageError, PageHung, BrowserFault):
            raise
        except TimeoutError:
            await self._reload(tabs)
            raise PageHung(f"the page did not answer within {ACTION_S:g} s and was loaded again") from None
        except Exception as error:
            text = str(error)
            if tabs.has_crashed and self._host.was_stopped_for_memory():
                tabs.has_crashed = False
                await self._reload(tabs)
                raise PageHung("the page took too much memory and was loaded again") from None
            if tabs.has_crashed or any(mark in text for mark in _DEATHS):
                await self._fail(error)
            if text.startswith("Page.evaluate:") or isinstance(error, (LookupError, TypeError, ValueError)):
                raise PageHung(f"the page's scripts get in the way: {text[:200]}") from None
            if "Timeout" in text:
                await self._reload(tabs)
                raise PageHung("the page did not answer and was loaded again") from None
            raise BrowserFault(f"Chromium: {first_line(error)}") from error

    async def _fail(self, error: Exception) -> None:
        if not self._live_tabs.has_crashed:
            await self._host.invalidate(self._live_tabs.context.browser)
        raise BrowserFault(f"the browser died: {first_line(error)}") from error

    async def _open(self) -> None:
        spares = self._host.spares
        if self._storage is None and (tabs := await spares.take()) is not None:
            try:
                await self._show_start(tabs)
                return
            except Exception:  # its renderer or browser has died since it was made
                await spares.close(tabs.context)
        context = await self._host.new_context(self._storage)
        try:
            tabs = Tabs(context)
            await asyncio.wait_for(tabs.open(), LOAD_S)
            await self._show_start(tabs)
        except Exception as error:
            await close_context(context)
            await self._host.invalidate(context.browser)
            advice = "" if self._origin else "; start the site there, or give its address in `urls`"
            raise BrowserFault(f"the first page cannot be shown: {first_line(error)}{advice}") from error

    async def _show_start(self, tabs: Tabs) -> None:
        self._tabs, tabs.deliver = tabs, self._deliver
        try:
            if self._origins:
                await tabs.context.add_init_script(_ORIGINS % json.dumps(self._origins))
            await tabs.page.goto(self._origin + self._start, wait_until="commit", timeout=1000 * LOAD_S)
            await tabs.settle()
        except BaseException as error:
            self._tabs = None
            if not isinstance(error, Exception):  # the caller was interrupted
                self._host.spares.close_soon(tabs.context)
            raise
        self._host.spares.fill()

    def _deliver(self, path: str, form: str) -> None:
        self._host.server.deliver(self._origin, path, form)

    async def _reload(self, tabs: Tabs) -> None:
        """Load the page that is shown again, in a new tab in its place; leave that empty if it hangs as well."""
        url = tabs.page.url
        try:
            await asyncio.wait_for(tabs.replace(), ACTION_S)
            if url.startswith(self._origin or "http"):
                await asyncio.wait_for(tabs.page.goto(url, wait_until="domcontentloaded", timeout=3000), 4.0)
        except TimeoutError:
            pass
        except Exception as error:
            if any(mark in str(error) for mark in _DEATHS):
                await self._host.invalidate(tabs.context.browser)
                raise BrowserFault(f"the browser died: {first_line(error)}") from error
