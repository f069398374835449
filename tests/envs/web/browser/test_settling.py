"""What is read at the end of an action, and when that is the page as it is now; which tab is shown when tabs open late."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest

from envs.web.browser import ChromiumPage, tabs
from envs.web.browser.tabs import Tabs
from envs.web.page import PageError
from tests.support.pages import Pages, click, element, texts


def in_browser(test: Any) -> Any:
    return pytest.mark.browser(pytest.mark.usefixtures("chromium_installed")(test))


class FakeTab:
    def on(self, event: str, listener: Any) -> None:
        """Tell nothing."""


@pytest.fixture
def page() -> Iterator[ChromiumPage]:
    page = ChromiumPage()
    yield page
    page.close()


def evaluations(page: ChromiumPage, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is evaluated on the page from now on, each of it a round trip to the browser."""
    scripts: list[str] = []
    kind = type(page._live_tabs.page)
    evaluate = kind.evaluate

    def count(self: Any, script: str, *args: Any) -> Any:
        scripts.append(script)
        return evaluate(self, script, *args)

    monkeypatch.setattr(kind, "evaluate", count)
    return scripts


@in_browser
def test_an_action_and_its_observation_take_few_round_trips_and_send_no_long_script(
    page: ChromiumPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tabs, "READING_S", 60.0)
    page.open(Pages({"/": "<p id=out>0</p><button onclick='out.textContent++'>Go</button><input aria-label=Name>"}))
    go, name = element(page, "Go").index, element(page, "Name").index
    scripts = evaluations(page, monkeypatch)
    page.click(go)
    assert texts(page) == ["1"] and len(scripts) == 2
    page.type(name, "Ada")
    assert element(page, "Name").value == "Ada" and len(scripts) == 3
    assert max(map(len, scripts)) < 1000


@in_browser
@pytest.mark.parametrize("delay", [0, 1200])  # within the action, or when nobody looks
def test_what_a_page_reports_reaches_its_site_with_the_observation_or_by_itself(
    page: ChromiumPage, delay: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = "window[Symbol.for('turnwise.outbox')].post('/done', {points: '1 & 2'})"
    site = Pages({"/": f'<button onclick="setTimeout(() => {report}, {delay})">Go</button>', "/done": ""})
    page.open(site)
    delivered: list[str] = []
    deliver = page._host.server.deliver
    monkeypatch.setattr(page._host.server, "deliver", lambda *args: (delivered.append(args[1]), deliver(*args)))
    click(page, "Go")
    end = time.monotonic() + 10
    while time.monotonic() < end and site.requests[-1].path != "/done":
        time.sleep(0.05)
    assert [(each.method, each.form) for each in site.requests if each.path == "/done"] == [
        ("POST", {"points": ("1 & 2",)})
    ]
    assert delivered == ([] if delay else ["/done"])


@in_browser
def test_a_page_that_changes_after_an_action_is_read_anew(page: ChromiumPage) -> None:
    later = "setTimeout(() => out.textContent = 'later', 1100)"  # longer than any timer that an action waits for
    page.open(Pages({"/": f'<p id=out>now</p><button onclick="{later}">Go</button>'}))
    click(page, "Go")
    time.sleep(1.5)
    assert texts(page) == ["later"]


@in_browser
def test_what_an_action_has_led_to_is_not_what_the_next_one_does(
    page: ChromiumPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tabs, "READING_S", 60.0)
    page.open(Pages({"/": "<p id=out>0</p><div onclick='out.textContent++' style='height:99px'>Area</div>"}))
    page.observe()
    page.press("Tab")  # what the page shows now is kept
    with pytest.raises(PageError, match="no field to type into"):  # although its click has an effect
        page.type_at(50, 100, "Ada")
    assert texts(page)[0] == "1"


@in_browser
@pytest.mark.parametrize("wait_s", [1.0, 0.05])  # for tabs that the browser does not know of; it knows of these
def test_all_tabs_that_an_action_opens_are_awaited(
    page: ChromiumPage, monkeypatch: pytest.MonkeyPatch, wait_s: float
) -> None:
    monkeypatch.setattr(tabs, "NEW_TAB_S", wait_s)
    add, delays = Tabs._add, iter((0.0, 0.2, 0.4))  # as on a machine that is busy

    def add_late(context: Tabs, tab: Any) -> None:
        delay = next(delays) if context.pages else 0  # of the first tab of a context
        asyncio.get_running_loop().call_later(delay, add, context, tab) if delay else add(context, tab)

    monkeypatch.setattr(Tabs, "_add", add_late)
    page.open(Pages({"/": "<button onclick='for (let i = 0; i < 3; i++) window.open(`/b`)'>Go</button>", "/b": "b"}))
    click(page, "Go")
    snapshot = page.observe()
    assert (len(snapshot.tabs), snapshot.tab) == (4, 3)


def test_a_tab_that_opens_too_late_does_not_take_the_place_of_the_one_that_is_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tabs, "NEW_TAB_S", 0.01)

    async def open_late() -> None:
        context, end = Tabs(None), asyncio.get_running_loop().time() + 60
        context._add(FakeTab())
        context._expected = context._opened
        await context._wait_for_tabs(1, end)  # none opens in time
        context._add(FakeTab())
        assert (len(context.pages), context.place) == (2, 0)
        context._add(FakeTab())  # an action opens one, and says so afterwards
        await context._wait_for_tabs(1, end)
        assert context.place == 2
        for place in (3, 4):
            await context._wait_for_tabs(1, end)  # under a known name none opens
            context._add(FakeTab())
            await context._wait_for_tabs(1, end)  # but then one does
            assert context.place == place

    asyncio.run(open_late())
