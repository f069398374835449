"""The tabs of one browser context: which there are, what they are loading, and when they have come to rest."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

MOST_TABS = 8
SETTLE_S = 3.0  # the longest that an action waits for its effects
LOAD_S = 10.0
NEW_TAB_S = 1.0  # for a tab that the browser does not know of yet; one that it knows is awaited until the end
LOOK_S, ANSWER_S = 0.2, 1.0
LATE_S = 10.0  # after which a tab that was to open is one that does not: its name was known
UNREAD_S = 0.1
READING_S = 0.05  # for which what was read at the end of an action is the page as it is now
_IDLE = Path(__file__).with_name("idle.js").read_text(encoding="utf-8")
WALK = Path(__file__).with_name("walk.js").read_text(encoding="utf-8").rstrip()
# Every document has the walk from its beginning, so that it is neither sent nor parsed again for each use.
_INIT = f"{_IDLE}Object.defineProperty(window, Symbol.for('turnwise.walk'), {{value: Object.freeze({WALK})}});"
_SETTLE = """async ([limit, reads, name, values]) => {
  const of = name => window[Symbol.for("turnwise." + name)];
  const perform = name ? (of("walk") ?? {})[name] ?? of(name) : () => null;
  if (!perform) return [0, null, "absent", null, [], null];
  const result = perform(...values);
  if (result?.error) return [0, null, result, null, [], null];
  const opened = await of("idle")?.(limit) ?? 0, walk = of("walk");
  const text = reads && !opened && walk && !of("leaving")?.() ? walk.read() : null;
  return [opened, text, result, walk?.verdict() ?? null, of("outbox")?.take() ?? [], of("refused")?.() ?? null];
}"""
ABSENT = "absent"  # what a page cannot do, because it has no walk
_LASTING = frozenset(("eventsource", "websocket", "media", "ping"))


class Tabs:
    """The open tabs of a context, in the order in which they opened.

    Attributes:
        pages: Playwright's pages.
        place: The place of the one that is shown.
        has_crashed: Whether the renderer of one of them has died.
        deliver: Takes what a page tells its site with an observation: a path and a form, URL-encoded.
        acting: The page on which an action is made; it knows how many tabs that opens.
        reading: What the last action has led to, until `take_reading` or another action.
        refusal: The address out of the site that a form or link has and to which the last action has not led; or None.
        failure: Why the last page that could not be loaded was not, in Chromium's words: "net::ERR_NAME_NOT_RESOLVED".
    """

    def __init__(self, context: Any) -> None:
        self.context = context
        self.deliver: Callable[[str, str], None] = lambda path, form: None
        self.pages: list[Any] = []
        self.place = 0
        self.has_crashed = False
        self.acting: Any = None
        self.refusal: str | None = None
        self.failure = ""
        self._requests: set[Any] = set()
        self._opened = self._expected = self._overdue = 0
        self._last_count = 0  # of the opened, by the actions before this one
        self._overdue_until = 0.0
        self._changes = 0  # requests and tabs that have come or gone
        self.reading: tuple[str, Any, int, float] | None = None  # the text, its page, the changes before it, when
        self._live: set[Any] = set()  # pages that have opened, those that are being closed included
        self._context_id = ""
        self._new_tab = asyncio.Event()
        self._tasks: set[asyncio.Task] = set()
        self._no_requests = asyncio.Event()
        self._no_requests.set()

    async def open(self) -> None:
        """Open the first tab."""
        await self.context.add_init_script(_INIT)
        self.context.on("page", self._add)
        self.context.on("request", self._begin_request)
        self.context.on("requestfinished", self._end_request)
        self.context.on("requestfailed", self._fail_request)
        self.context.on("response", self._expect_end)
        await self.context.new_page()
        self._expected = self._last_count = self._opened

    @property
    def page(self) -> Any:
        """The page that is shown."""
        return self.pages[self.place]

    def show(self, page: Any) -> None:
        """Make this page the one that is shown; tabs that were opened beside it are no effect of an action."""
        self.place = self.pages.index(page)
        self._expected = self._last_count = self._opened

    async def replace(self) -> None:
        """Put a new tab in the place of the one that is shown, which hangs or has crashed."""
        old, place = self.page, self.place
        self.pages.remove(old)
        new = await self.context.new_page()
        self._expected = self._last_count = self._opened
        self.pages.remove(new)
        self.pages.insert(place, new)
        self.place = place
        self._requests.clear()
        self._no_requests.set()
        with contextlib.suppress(Exception):
            await asyncio.wait_for(old.close(), 2.0)

    def take_reading(self) -> str | None:
        """What the page showed at the end of an action, if that was just now and nothing has changed since; once."""
        reading, self.reading = self.reading, None
        if reading is None or not self.pages:
            return None
        text, page, changes, when = reading
        is_young = asyncio.get_running_loop().time() - when < READING_S
        return text if is_young and page is self.page and changes == self._changes and not self._requests else None

    async def settle(self, name: str = "", *values: Any) -> Any:
        """Wait until the page's requests and short timers are over, and a navigation has arrived; at most `SETTLE_S`.

        What the page shows then is kept for `take_reading`.

        Args:
            name: Of what the page is to do first, a function of `walk.js` or one that the page has of its own.
            values: Its arguments.

        Returns:
            What that returned, with `error` if it did nothing, `ABSENT` if the page has no such function; without a
            name what became of a guarded click. None if the page has been left meanwhile.

        Raises:
            TimeoutError: The page does not run scripts any more.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + SETTLE_S
        self.reading, self.refusal = None, None
        outcome: Any = None
        acting, self.acting = self.acting, None
        while self.pages and (remaining_s := end - loop.time()) > 0:
            page = acting if acting in self.pages else self.page  # a new tab may be shown already
            acting = None
            try:
                changes, reads, step, name = self._changes, all(map(_is_document, self._requests)), name, ""
                idle = page.evaluate(_SETTLE, [1000 * remaining_s, reads, step, values])
                opened, text, result, verdict, posts, refusal = await asyncio.wait_for(idle, remaining_s + 2.0)
                self.refusal = refusal if self.refusal is None else self.refusal
                for path, form in posts:
                    self.deliver(path, form)
                outcome = outcome or result or verdict
                if result == ABSENT or (isinstance(result, dict) and "error" in result):
                    return result
                await self._wait_for_tabs(opened, end)
                if self.pages and self.page is not page:
                    continue
                if not self._requests:
                    self.reading = (text, page, changes, loop.time()) if isinstance(text, str) else None
                    return outcome
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._no_requests.wait(), max(end - loop.time(), 0.01))
            except TimeoutError:
                raise
            except Exception as error:
                if page.is_closed() and page not in self.pages:  # it has closed itself
                    continue
                if not _is_navigation(error):
                    raise
                with contextlib.suppress(Exception):
                    await page.wait_for_load_state("domcontentloaded", timeout=1000 * max(remaining_s, 0.01))
        return outcome

    async def _wait_for_tabs(self, opened: int, end: float) -> None:
        """Wait for tabs that the page has opened, until `end` by the loop's clock; under a known name none opens."""
        self._expected += opened
        loop = asyncio.get_running_loop()
        soon = min(loop.time() + NEW_TAB_S, end)
        while self._opened < self._expected:
            self._new_tab.clear()
            remaining_s = (end if await self._is_opening() else soon) - loop.time()
            if remaining_s <= 0:
                break
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._new_tab.wait(), min(remaining_s, LOOK_S))
        if self._expected > self._opened:
            self._overdue += self._expected - self._opened
            self._overdue_until = asyncio.get_running_loop().time() + LATE_S
        if opened and self._opened > self._last_count and self.pages:
            self.place = len(self.pages) - 1
        self._expected = self._last_count = self._opened

    async def _is_opening(self) -> bool:
        """Whether the browser has more tabs in this context than have been announced."""
        with contextlib.suppress(Exception):
            async with asyncio.timeout(ANSWER_S):
                protocol = await self.context.browser.new_browser_cdp_session()
                try:
                    targets = (await protocol.send("Target.getTargets"))["targetInfos"]
                finally:
                    self._run(protocol.detach())
                self._context_id = self._context_id or await self._find_context_id()
                own = [each for each in targets if each["browserContextId"] == self._context_id]
                return sum(each["type"] == "page" for each in own) > len(self._live)
        return False

    async def _find_context_id(self) -> str:
        protocol = await self.context.new_cdp_session(self.page)
        info = (await protocol.send("Target.getTargetInfo"))["targetInfo"]
        self._run(protocol.detach())
        return info["browserContextId"]

    def _add(self, page: Any) -> None:
        """Show a new tab, but not one that an earlier action has opened: another is shown by now."""
        self._opened += 1
        self._changes += 1
        is_late = self._overdue > 0
        if is_late and asyncio.get_running_loop().time() > self._overdue_until:
            self._overdue, is_late = 0, False
        if is_late:
            self._overdue -= 1
            self._expected += 1
        self._new_tab.set()
        self._live.add(page)
        page.on("close", self._remove)
        if len(self.pages) >= MOST_TABS:
            self._run(page.close())
            return
        self.pages.append(page)
        if not is_late or len(self.pages) == 1:
            self.place = len(self.pages) - 1
        page.on("crash", self._on_crash)
        page.on("dialog", self._on_dialog)

    def _run(self, work: Coroutine[Any, Any, Any]) -> None:
        """Do something beside an action; its errors do not matter."""
        task = asyncio.ensure_future(_quietly(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _on_dialog(self, dialog: Any) -> None:
        self._changes += 1
        self._run(_answer(dialog))

    def _remove(self, page: Any) -> None:
        self._changes += 1
        self._live.discard(page)
        if page in self.pages:
            gone = self.pages.index(page)
            self._requests = {request for request in self._requests if request.frame.page is not page}
            if not self._requests:
                self._no_requests.set()
            self.pages.remove(page)
            self.place = max(0, min(self.place - (gone <= self.place and self.place > 0), len(self.pages) - 1))

    def _on_crash(self, page: Any) -> None:
        self.has_crashed = True

    def _begin_request(self, request: Any) -> None:
        try:
            is_shown = request.frame.page in self.pages
        except Exception:  # of a page that does not exist yet, or no longer
            is_shown = False
        if is_shown and request.resource_type not in _LASTING:
            self._changes += 1
            self._requests.add(request)
            self._no_requests.clear()

    def _expect_end(self, response: Any) -> None:
        """Wait only a moment for the end of an answer: a script may never read it."""
        if response.request.resource_type in ("fetch", "xhr"):
            asyncio.get_running_loop().call_later(UNREAD_S, self._end_request, response.request)

    def _fail_request(self, request: Any) -> None:
        if _is_document(request):
            self.failure = request.failure or ""
        self._end_request(request)

    def _end_request(self, request: Any) -> None:
        self._changes += request in self._requests and not _is_document(request)  # a page is read when it has arrived
        self._requests.discard(request)
        if not self._requests:
            self._no_requests.set()


async def _answer(dialog: Any) -> None:
    """Say yes to a question, and nothing to one that asks for text."""
    await (dialog.dismiss() if dialog.type == "prompt" else dialog.accept())


async def _quietly(work: Coroutine[Any, Any, Any]) -> None:
    with contextlib.suppress(Exception):
        await work


def _is_document(request: Any) -> bool:
    """Whether a request is for what is shown in a tab as a whole."""
    try:
        return request.is_navigation_request() and request.frame.parent_frame is None
    except Exception:  # of a page that does not exist any more
        return False


def _is_navigation(error: Exception) -> bool:
    text = str(error)
    return "Execution context was destroyed" in text or "navigat" in text or "Cannot find context" in text
