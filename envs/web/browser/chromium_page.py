"""A page in a real browser, as an `envs.web.page.Page`."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from envs.suggestions import unknown_message
from envs.web.browser.host import BrowserHost, shared_host
from envs.web.browser.reading import parse_snapshot, refusal
from envs.web.browser.tabs import LOAD_S, Tabs
from envs.web.page import BrowserFault, Element, PageError, PageHung, Snapshot, Text
from envs.web.site import Site

ACTION_S = 10.0  # of one action with its effects
OPEN_S = 60.0  # of starting a browser and showing the first page
MOST_KEY = 40
_FOLDER = Path(__file__).parent
_WALK = "([name, ...rest]) => " + (_FOLDER / "walk.js").read_text(encoding="utf-8").rstrip() + "[name](...rest)"
_MARKS = (_FOLDER / "marks.js").read_text(encoding="utf-8")
_DEATHS = ("has been closed", "Connection closed", "Target closed", "Browser closed", "disconnected")


class ChromiumPage:
    """The engine `chromium`: a context of its own in the process's browser for every episode.

    Every action waits until its effects are there: requests, navigations and timers of up to a second. A page that does
    not answer is loaded again and raises PageHung; a browser that has died raises BrowserFault, and the next `open`
    starts another one.
    """

    def __init__(self, *, view: str = "text", executable: str | None = None) -> None:
        self.view = view
        self._host: BrowserHost = shared_host(executable)
        self._tabs: Tabs | None = None
        self._origin = ""
        self._start = "/"
        self._snapshot = Snapshot("", "", ())

    def open(self, site: Site) -> None:
        """Begin an episode: drop everything of the last one, then show `site.start`. Raises BrowserFault."""
        self._end_episode()
        self._host.users.add(self)
        self._snapshot = Snapshot("", "", ())
        self._origin, self._start = self._host.server.add(site), site.start
        error: Exception | None = None
        for _ in range(2):  # a browser that another page's fault has ended is started again
            try:
                self._host.call(self._open, deadline_s=OPEN_S)
                return
            except BrowserFault as fault:
                error = fault
        self.close()
        raise BrowserFault(str(error)) from error

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
        if not key or len(key) > MOST_KEY:
            raise PageError(
                f"{key[:MOST_KEY]!r} is no key; keys are named Enter, Tab, Space, ArrowDown, Backspace, a, ..."
            )
        self._act(self._press, key)

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
        data = self._act(self._screenshot)
        return {"type": "image_url", "image_url": {"url": f"data:image/jpeg;base64,{data}"}}

    def close(self) -> None:
        """Give the context back; the last page of the process ends the browser."""
        self._end_episode()
        self._host.leave(self)

    def _end_episode(self) -> None:
        self._host.server.remove(self._origin)
        tabs, self._tabs = self._tabs, None
        if tabs is not None:
            with contextlib.suppress(BrowserFault):
                self._host.call(self._close, tabs, deadline_s=ACTION_S)

    @property
    def _live_tabs(self) -> Tabs:
        if self._tabs is None:
            raise BrowserFault("no page is open; call open() first")
        return self._tabs

    def _path(self) -> str:
        parts = urlsplit(self._live_tabs.page.url if self._live_tabs.pages else "")
        return parts._replace(scheme="", netloc="").geturl() or "/"

    # On the browser's loop.

    def _act(self, function: Callable[..., Coroutine[Any, Any, Any]], *args: Any) -> Any:
        return self._host.call(self._guarded, partial(function, *args), deadline_s=2 * ACTION_S)

    async def _guarded(self, action: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """Await an action; say of what fails whether it is the policy's, the page's or the browser's doing."""
        tabs = self._live_tabs
        try:
            if not tabs.pages:
                await self._reopen(tabs)
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
            raise BrowserFault(f"Chromium: {text.splitlines()[0][:300] if text else type(error).__name__}") from error

    async def _fail(self, error: Exception) -> None:
        if not self._live_tabs.has_crashed:
            await self._host.invalidate()
        raise BrowserFault(f"the browser died: {str(error).splitlines()[0][:200]}") from error

    async def _open(self) -> None:
        context = await self._host.new_context()
        try:
            tabs = Tabs(context)
            await asyncio.wait_for(tabs.open(), LOAD_S)
            self._tabs = tabs
            await tabs.page.goto(self._origin + self._start, wait_until="domcontentloaded", timeout=1000 * LOAD_S)
            await tabs.settle()
        except BaseException as error:
            self._tabs = None
            if isinstance(error, Exception):
                await self._host.invalidate()
                raise BrowserFault(f"the first page cannot be shown: {str(error).splitlines()[:1]}") from error
            raise

    async def _reopen(self, tabs: Tabs) -> None:
        """Open the site's first page after all tabs were closed."""
        await tabs.context.new_page()
        await tabs.page.goto(self._origin + self._start, wait_until="domcontentloaded", timeout=1000 * LOAD_S)
        await tabs.settle()

    async def _reload(self, tabs: Tabs) -> None:
        """Load the page that is shown again, in a new tab in its place; leave that empty if it hangs as well."""
        url = tabs.page.url
        try:
            await asyncio.wait_for(tabs.replace(), ACTION_S)
            if url.startswith(self._origin):
                await asyncio.wait_for(tabs.page.goto(url, wait_until="domcontentloaded", timeout=3000), 4.0)
        except TimeoutError:
            pass
        except Exception as error:
            if any(mark in str(error) for mark in _DEATHS):
                await self._host.invalidate()
                raise BrowserFault(f"the browser died: {str(error).splitlines()[0][:200]}") from error

    async def _close(self, tabs: Tabs) -> None:
        with contextlib.suppress(Exception):
            await asyncio.wait_for(tabs.context.close(), ACTION_S / 2)

    async def _evaluate(self, name: str, *args: Any) -> Any:
        return await self._live_tabs.page.evaluate(_WALK, [name, *args])

    async def _read(self) -> Snapshot:
        tabs = self._live_tabs
        for _ in range(5):
            try:
                data = json.loads(await self._evaluate("read"))
                break
            except Exception as error:
                if "Execution context was destroyed" not in str(error):
                    raise
                await tabs.settle()
        else:
            raise PageHung("the page loads itself again and again")
        titles = tuple([await page.title() for page in tabs.pages]) if len(tabs.pages) > 1 else ()
        return parse_snapshot(data, self._path(), titles, tabs.place)

    async def _click(self, index: int) -> None:
        element = self._element(index)
        place = await self._evaluate("locate", index)
        if "error" in place:
            raise refusal(index, place)
        if (place["role"], place["name"]) != (element.role, element.name):
            raise PageError(f"element {index} has changed since the page was shown; look at it again")
        if place["leaves"]:
            raise PageError(f"the address {place['leaves'][:80]!r} leads out of this site and cannot be opened")
        await self._live_tabs.page.mouse.click(place["x"], place["y"])
        await self._finish()

    async def _type(self, index: int, text: str, submit: bool) -> None:
        self._element(index)
        result = await self._evaluate("fill", index, text)
        if "error" in result:
            raise refusal(index, result, text)
        page = self._live_tabs.page
        if result.get("insert"):
            await page.keyboard.insert_text(result["insert"])
        elif result.get("empty"):
            await self._evaluate("clear", index)
        if submit:
            await page.keyboard.press("Enter")
        await self._finish()

    async def _select(self, index: int, option: str) -> None:
        self._element(index)
        wish = " ".join(option.split())
        result = await self._evaluate("choose", index, wish)
        if "error" in result:
            raise refusal(index, result, wish)
        await self._finish()

    async def _press(self, key: str) -> None:
        try:
            await self._live_tabs.page.keyboard.press(key)
        except Exception as error:
            if "Unknown key" in str(error):
                raise PageError(f"{key!r} is no key; keys are named Enter, Tab, Space, ArrowDown, a, ...") from None
            raise
        await self._finish()

    async def _scroll(self, sign: int) -> None:
        move = "sign => scrollBy({top: sign * innerHeight * 0.8, behavior: 'instant'})"
        await self._live_tabs.page.evaluate(move, sign)
        await self._finish()

    async def _back(self) -> None:
        page = self._live_tabs.page
        before = await page.evaluate("() => history.length")
        response = await page.go_back(wait_until="load", timeout=1000 * ACTION_S)
        if page.url == "about:blank":
            await page.go_forward(wait_until="domcontentloaded", timeout=1000 * ACTION_S)
            response, before = None, 1
        if response is None and before <= 2 and page.url.startswith(self._origin):
            raise PageError("this is the first page of this tab; there is nothing to go back to")
        await self._finish()

    async def _switch(self, tab: int) -> None:
        self._live_tabs.place = tab
        await self._live_tabs.page.bring_to_front()

    async def _finish(self) -> None:
        """Wait for the effects of an action; leave a page that cannot be shown."""
        tabs = self._live_tabs
        await tabs.settle()
        if not tabs.pages:
            await self._reopen(tabs)
            raise PageHung("the page has closed itself; the first page was opened again")
        if tabs.page.url.startswith("chrome-error:"):
            await tabs.page.go_back(wait_until="load", timeout=1000 * ACTION_S)
            await tabs.settle()
            raise PageError("the page leads out of this site and cannot be opened")

    async def _screenshot(self) -> str:
        page = self._live_tabs.page
        if self.view == "marks":
            boxes = [element.box for element in self._snapshot.elements()]
            await page.evaluate(_MARKS, boxes)
        data = await page.screenshot(type="jpeg", quality=70, timeout=1000 * ACTION_S)
        if self.view == "marks":
            await page.evaluate(_MARKS, False)
        return base64.b64encode(data).decode()

    def _element(self, index: int) -> Element:
        elements = self._snapshot.elements()
        if not 1 <= index <= len(elements):
            raise PageError(f"there is no element {index}; the page has {len(elements)}")
        return elements[index - 1]
