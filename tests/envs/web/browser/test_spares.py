"""The context of the next episode, made beforehand, and those that close behind their episodes."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from envs.web.browser import ChromiumPage, spares
from envs.web.browser.spares import Spares
from tests.envs.web.browser.test_faults import processes
from tests.support.pages import Pages, click, texts


def in_browser(test: Any) -> Any:
    return pytest.mark.browser(pytest.mark.usefixtures("chromium_installed")(test))


class FakeContext:
    """A context whose closing takes until it is let go."""

    def __init__(self) -> None:
        self.may_close = asyncio.Event()

    async def close(self) -> None:
        await self.may_close.wait()


@pytest.fixture
def page() -> Iterator[ChromiumPage]:
    page = ChromiumPage()
    yield page
    page.close()


def spare_of(page: ChromiumPage) -> Any:
    """The context that waits for the next episode, once it is there."""

    async def wait() -> Any:
        spares = page._host.spares
        if spares._filling is not None:
            await asyncio.wait([spares._filling])
        return spares._spare

    return page._host.call(wait, deadline_s=20)


def test_few_contexts_are_being_closed_at_once_and_the_end_waits_for_them() -> None:
    async def close_many() -> None:
        pool, contexts = Spares(FakeContext), [FakeContext() for _ in range(spares.MOST_CLOSING + 1)]  # type: ignore[arg-type]
        for context in contexts[:-1]:
            await asyncio.wait_for(pool.close(context), 5)
        last = asyncio.ensure_future(pool.close(contexts[-1]))
        await asyncio.sleep(0.01)
        assert not last.done() and pool.num_closing == spares.MOST_CLOSING + 1
        contexts[2].may_close.set()
        await asyncio.wait_for(last, 5)
        end = asyncio.ensure_future(pool.end())
        await asyncio.sleep(0.01)
        assert not end.done()
        for context in contexts:
            context.may_close.set()
        await asyncio.wait_for(end, 5)
        assert pool.num_closing == 0

    asyncio.run(close_many())


def test_a_context_that_cannot_be_made_beforehand_is_made_by_the_episode() -> None:
    async def fail() -> Any:
        raise OSError("no browser")

    async def fill() -> None:
        pool = Spares(fail)
        pool.fill()
        assert await pool.take() is None

    asyncio.run(fill())


@in_browser
def test_an_episode_takes_the_context_that_was_made_beforehand_and_another_is_made(page: ChromiumPage) -> None:
    page.open(Pages({"/": "<p>first"}))
    spare = spare_of(page)
    page.open(Pages({"/": "<p>second"}))
    assert page._tabs is spare and texts(page) == ["second"]
    assert spare_of(page) not in (None, spare)


LEAVES = """<p>one</p><script>document.cookie = 'a=1; path=/; domain=site.test'; localStorage.a = sessionStorage.a = 1;
name = 'a'; caches.open('a').catch(() => 0); indexedDB.open('a'); history.pushState({}, '', '/x');
onbeforeunload = event => event.preventDefault();
setTimeout(() => { for (;;) { if (!confirm('again?')) break; } }, 1500)</script>
<button onclick="open('/')">Popup</button>"""
LOOKS = """<p id=out></p><script>(async () => { const bases = await indexedDB.databases();
out.textContent = [document.cookie, localStorage.length, sessionStorage.length, name, bases.length, history.length,
opener].join('|') })()</script>"""


@in_browser
def test_nothing_of_an_episode_is_there_in_the_next_one(page: ChromiumPage) -> None:
    page.open(Pages({"/": LOOKS}))
    expected = texts(page)
    page.open(Pages({"/": LEAVES, "/x": "x"}))
    page.observe()
    click(page, "Popup")
    page.open(Pages({"/": LOOKS}))
    assert texts(page) == expected and len(page.observe().tabs) == 0


@in_browser
@pytest.mark.parametrize("kind", ["renderer", "browser"])
def test_a_context_that_has_died_while_it_waited_costs_no_episode(page: ChromiumPage, kind: str) -> None:
    page.open(Pages({"/": "<p>first"}))
    spare_of(page)
    for pid in processes(page, kind):
        os.kill(pid, signal.SIGKILL)
    page.open(Pages({"/": "<p>second"}))
    assert texts(page) == ["second"]


@in_browser
def test_the_last_page_ends_the_browser_whatever_is_being_made(page: ChromiumPage) -> None:
    page.open(Pages({"/": "<p>first"}))
    host = page._host
    page.close()
    assert host._browser is None and host.spares._spare is None and host.spares.num_closing == 0
