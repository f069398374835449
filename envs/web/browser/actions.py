"""What the actions on a page do in the browser; all of it runs on the browser's loop."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any
from urllib.parse import urlsplit

from envs.web.browser import pointer
from envs.web.browser.reading import parse_snapshot, refusal
from envs.web.browser.tabs import ABSENT, LOAD_S, WALK, Tabs
from envs.web.page import BrowserFault, Element, PageError, PageHung, Snapshot

ACTION_S = 10.0  # of one action with its effects
_CALL = f"""([name, ...rest]) => {{
  const walk = window[Symbol.for("turnwise.walk")];
  return walk ? walk[name](...rest) : "{ABSENT}";
}}"""
_WHOLE = f"([name, ...rest]) => {WALK}[name === 'target' ? 'locate' : name](...rest)"


class PageActions:
    """The tabs of an episode and what is done with them.

    Attributes of the episode: `_origin`, before the paths of its site, "" where pages are named by their whole address;
    `_start`, its first page; `_origins` that links may lead to besides the page's own.
    """

    _tabs: Tabs | None = None
    _origin = ""
    _start = "/"
    _origins: tuple[str, ...] = ()
    _snapshot = Snapshot("", "", ())

    @property
    def _live_tabs(self) -> Tabs:
        if self._tabs is None:
            raise BrowserFault("no page is open; call open() first")
        return self._tabs

    def _path(self) -> str:
        url = self._live_tabs.page.url if self._live_tabs.pages else ""
        if not self._origin:
            return url
        parts = urlsplit(url)
        return parts._replace(scheme="", netloc="").geturl() or "/"

    async def _reopen(self, tabs: Tabs) -> None:
        """Open the site's first page after all tabs were closed."""
        await tabs.context.new_page()
        await tabs.page.goto(self._origin + self._start, wait_until="domcontentloaded", timeout=1000 * LOAD_S)
        await tabs.settle()

    async def _evaluate(self, name: str, *args: Any) -> Any:
        page = self._live_tabs.page
        result = await page.evaluate(_CALL, [name, *args])
        return await page.evaluate(_WHOLE, [name, *args]) if result == ABSENT else result

    async def _read(self) -> Snapshot:
        tabs = self._live_tabs
        for _ in range(5):
            try:
                data = json.loads(tabs.take_reading() or await self._evaluate("read"))
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
        place = await self._evaluate("target", index, self._origins, element.role, element.name)
        if "error" in place:
            raise refusal(index, place)
        if place["leaves"] is not None:
            raise PageError(f"the address {place['leaves'][:80]!r} leads out of this site and cannot be opened")
        mouse = self._live_tabs.page.mouse
        if place.get("guarded"):
            await mouse.click(place["x"], place["y"])
        else:
            await mouse.move(place["x"], place["y"])
            aim = await self._evaluate("aim", index, place["x"], place["y"])
            if "error" in aim:
                raise refusal(index, aim)
            await asyncio.gather(mouse.down(), mouse.up())  # sent at once, in this order
        verdict = await self._finish()
        if verdict and "error" in verdict:
            raise refusal(index, verdict)

    async def _type(self, index: int, text: str, submit: bool) -> None:
        self._element(index)
        page = self._live_tabs.page
        result = await (self._evaluate if submit else self._perform)("fill", index, text) or {}
        if "error" in result:
            raise refusal(index, result, text)
        if result.get("insert"):
            await page.keyboard.insert_text(result["insert"])
        if submit:
            await page.keyboard.press("Enter")
        if submit or result.get("insert"):
            await self._finish()

    async def _select(self, index: int, option: str) -> None:
        self._element(index)
        wish = " ".join(option.split())
        result = await self._perform("choose", index, wish) or {}
        if "error" in result:
            raise refusal(index, result, wish)

    async def _press(self, key: str) -> None:
        await self._live_tabs.page.keyboard.press(key)
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

    async def _inspect(self, url: str, script: str) -> str:
        tabs = self._live_tabs
        page = first = tabs.page
        try:
            if url:
                page = await tabs.context.new_page()
                await page.goto(url, wait_until="load", timeout=1000 * LOAD_S)
            if not script:
                return await page.content()
            try:
                return await page.evaluate(f"() => {{ const it = ({script}); return it == null ? '' : String(it) }}")
            except Exception as error:
                if not str(error).startswith("Page.evaluate:"):
                    raise
                return ""  # what it looks for is not there
        finally:
            if page is not first:
                await page.close()
                tabs.show(first)

    async def _run(self, name: str, values: tuple[Any, ...]) -> str:
        result = await self._live_tabs.settle(name, *values)
        return result if isinstance(result, str) and result != ABSENT else ""

    async def _perform(self, name: str, *args: Any) -> Any:
        """Do something of `walk.js` to the page and wait for its effects, in one message if it has the walk."""
        result = await self._finish(name, *args)
        if result == ABSENT:
            result = await self._evaluate(name, *args)
            if "error" not in result:
                await self._finish()
        return result

    async def _finish(self, name: str = "", *values: Any) -> Any:
        """Let the page do something, or nothing, as `Tabs.settle` does; leave a page that cannot be shown."""
        tabs = self._live_tabs
        result = await tabs.settle(name, *values)
        if not tabs.pages:
            await self._reopen(tabs)
            raise PageHung("the page has closed itself; the first page was opened again")
        if tabs.page.url.startswith("chrome-error:"):
            await tabs.page.go_back(wait_until="load", timeout=1000 * ACTION_S)
            await tabs.settle()
            if "ERR_TOO_MANY_REDIRECTS" in tabs.failure:
                raise PageError("the page leads to itself again and again and cannot be shown")
            raise PageError("the page leads out of this site and cannot be opened")
        if tabs.refusal is not None:
            raise PageError(f"the address {tabs.refusal[:80]!r} leads out of this site and cannot be opened")
        return result

    async def _point(self, function: Callable[..., Coroutine[Any, Any, Any]], *args: Any) -> Any:
        """Do something at a point of the page that is shown and wait for its effects, or take its picture."""
        result = await function(self._live_tabs.page, *args)
        if function is not pointer.picture:
            await self._finish()
        return result

    def _element(self, index: int) -> Element:
        elements = self._snapshot.elements()
        if not 1 <= index <= len(elements):
            raise PageError(f"there is no element {index}; the page has {len(elements)}")
        return elements[index - 1]
