"""The engine without a browser shows and does what a real browser does, on every kind of task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from envs.web.case import Step
from envs.web.dom.dom_page import DomPage
from envs.web.dom.key_names import KEYS
from envs.web.page import Element, Page, PageError, Row, Snapshot, Text
from tests.support import pages
from tests.support.addresses import ELSEWHERE, WITHIN
from tests.support.web_scripts import SITES, make

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("chromium_installed")]
KINDS = [(id, kind) for id in SITES for kind in make(id).kinds]


@pytest.fixture(scope="module")
def chromium() -> Any:
    """One environment per id, so that all kinds of it share a browser."""
    made: dict[str, Any] = {}
    yield lambda id: made.setdefault(id, make(id, engine="chromium"))
    for env in made.values():
        env.close()


def without_layout(snapshot: Snapshot) -> Snapshot:
    def plain(part: Text | Element | Row) -> Any:
        if isinstance(part, Row):
            return Row(tuple(tuple(map(plain, cell)) for cell in part.cells), part.header)
        return replace(part, box=None) if isinstance(part, Element) else part

    return replace(snapshot, nodes=tuple(map(plain, snapshot.nodes)), above=0.0, below=0.0)


def play_both(dom: Any, chromium: Any, index: int, steps: Sequence[Step]) -> float:
    """Play a script in both engines, side by side; the reward, which must be the same."""
    for env in (dom, chromium):
        env.reset(seed=0, options={"split": "test", "index": index})
    results: tuple[Any, Any] = ((), ())
    for step in steps:
        for reply in dom.play_step(step):
            assert without_layout(dom.snapshot) == without_layout(chromium.snapshot)
            results = dom.step(reply), chromium.step(reply)
            assert results[0][1:4] == results[1][1:4]
            assert [message["content"] for message in results[0][0]] == [m["content"] for m in results[1][0]]
        if any(results[0][2:4]):
            break
    return results[0][1]


@pytest.mark.parametrize(("id", "kind"), KINDS)
def test_both_engines_show_and_judge_the_same(id: str, kind: str, chromium: Any) -> None:
    dom = make(id)
    index = next(i for i, task in enumerate(dom.load("test")) if task.metadata["kind"] == kind)
    dom.reset(seed=0, options={"split": "test", "index": index})
    case = dom.case
    assert play_both(dom, chromium(id), index, case.steps) == 1.0
    for name, steps in case.misses.items():
        assert play_both(dom, chromium(id), index, steps) == pytest.approx(case.part_scores.get(name, 0.0))


@pytest.fixture(scope="module")
def engines() -> Any:
    """A page of each engine."""
    from envs.web.browser import ChromiumPage

    both = (DomPage(), ChromiumPage())
    yield both
    for page in both:
        page.close()


def results_of(page: Page, html: dict[str, str], acts: Sequence[str]) -> list[str]:
    """Open a site and do things; after each one the address, or the error. `Enter` stands for that key in a field."""
    page.open(pages.Pages(html))
    results = []
    for act in acts:
        try:
            if act == "back":
                page.back()
            elif act.startswith("Enter "):
                page.type(pages.element(page, act.removeprefix("Enter ")).index, "1", submit=True)
            elif act in KEYS:
                page.press(act)
            else:
                pages.click(page, act)
            results.append(page.observe().url)
        except PageError as error:
            results.append(str(error))
    return results


FORMS = """<a href=/get>Plain link</a> <a href="/get?q=1">Link</a> <a href=/on>Link on</a>
    <form action=/get><input name=q value=1 aria-label=Field><button>Get</button></form>
    <form action=/get method=post><input name=q value=1 aria-label=Posted><button>Post</button></form>
    <form action=/on method=post><button>Post on</button></form>"""


@pytest.mark.parametrize(
    "acts",
    [
        ("Get", "Get"),
        ("Enter Field", "Enter Field"),
        ("Get", "Enter Field"),
        ("Link", "Link"),
        ("Link", "Get"),
        ("Get", "Link"),
        ("Plain link", "Plain link"),
        ("Post", "Post"),
        ("Enter Posted", "Plain link"),
        ("Post on", "Post on"),
        ("Link on", "Link on"),
    ],
)
def test_the_way_back_is_the_same(acts: tuple[str, ...], engines: Any) -> None:
    """What a form leads to is a page of its own even at the same address; a link to that address loads it again."""
    html = {"/": "<a href=/get>Begin</a>", "/get": FORMS, "/on": "-> /get"}
    dom, chromium = (results_of(page, html, ("Begin", *acts, *["back"] * 4)) for page in engines)
    assert dom == chromium and any("first page" in each for each in dom)


@pytest.mark.parametrize("address", ELSEWHERE)
def test_neither_engine_leaves_the_site(address: str, engines: Any) -> None:
    html = f"""<a href="{address}">Link</a> <form action="{address}"><input name=q aria-label=Field><button>Get</button></form>
        <form action="{address}" method=post><button>Post</button></form>
        <form method=post action=/in><button formaction="{address}">Button</button></form>
        <form action="{address}"><input required aria-label=Required><button>Invalid</button></form> <a href=/in>In</a>"""
    acts = ("Link", "Get", "Enter Field", "Post", "Button", "Invalid", "In")
    words = f"the address {address!r} leads out of this site and cannot be opened"
    for page in engines:
        assert results_of(page, {"/": html, "/in": "in"}, acts) == [*[words] * 5, "/", "/in"]


@pytest.mark.parametrize("address", WITHIN)
def test_both_engines_read_an_address_within_the_site_alike(address: str, engines: Any) -> None:
    html = f"""<a href="{address}">Link</a> <a href=/go>Redirection</a> <form action="{address}"><button>Get</button></form>
        <form action="{address}" method=post><button>Post</button></form>"""
    for page in engines:
        for name in ("Link", "Redirection", "Get", "Post"):
            site = pages.Pages({"/": html, "/go": f"-> {address}", "/pay": "paid"})
            page.open(site)
            pages.click(page, name)
            assert site.requests[-1].path == "/pay", name


def test_both_engines_say_the_same_of_pages_that_cannot_be_shown(
    engines: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    html = {
        "/": "<a href=/loop>Loop</a> <a href=/out>Out</a> <a href=/none>None</a>",
        "/loop": "-> /loop",
        "/out": "-> https://phish.example/pay",
        "/none": "-> http://[",
    }
    dom, chromium = (results_of(page, html, ("Loop", "Out", "Loop", "None")) for page in engines)
    assert dom == chromium and "again and again" in dom[0] and "leads out" in dom[1] == dom[3]
    assert capfd.readouterr().err == ""


def test_both_engines_ask_for_paths_beyond_ascii_as_pages_write_them(engines: Any) -> None:
    html = {
        "/": "<a href=/to>Redirection</a> <a href=/\u65e5\u672c/%25>Link</a>",
        "/to": "-> /\u65e5\u672c?q=\u00e9 1",
    }
    for page in engines:
        for name, path in (("Redirection", "/\u65e5\u672c"), ("Link", "/\u65e5")):
            site = pages.Pages(html)
            page.open(site)
            pages.click(page, name)
            assert site.requests[-1].path.startswith(path)
            assert site.requests[-1].query == ({"q": ("\u00e9 1",)} if name == "Redirection" else {})


@pytest.mark.parametrize("listens", ["f.onsubmit = take", "addEventListener('submit', take)"])
def test_a_script_may_take_a_form_for_itself_whatever_its_address(listens: str, engines: Any) -> None:
    html = f"""<form id=f action=https://list.example/><button>Join</button></form><p id=p></p>
        <script>const take = event => {{ event.preventDefault(); p.textContent = "joined" }}; {listens}</script>"""
    _, chromium = engines
    assert results_of(chromium, {"/": html}, ("Join", "Join")) == ["/", "/"]
    assert "joined" in pages.texts(chromium)


@pytest.mark.parametrize("address", ["mailto:a@b.c", "tel:1", "about:blank", "data:text/plain,x"])
def test_a_script_may_take_a_link_of_another_scheme_for_itself(address: str, engines: Any) -> None:
    html = f"""<a href="{address}" onclick="p.textContent = 'ran'; return false">Script</a> <a href="{address}">Link</a>
        <p id=p></p>"""
    _, chromium = engines
    words = f"the address {address!r} leads out of this site and cannot be opened"
    assert results_of(chromium, {"/": html}, ("Script", "Link", "Script")) == ["/", words, "/"]
    assert "ran" in pages.texts(chromium)


def test_a_form_without_an_address_is_sent_to_its_page_whatever_the_base(engines: Any) -> None:
    html = """<base href=https://phish.example/><form method=post><button>Post</button></form>
        <form action=https://phish.example/><button formaction="" formmethod=post>Button</button></form>"""
    for page in engines:
        site = pages.Pages({"/": html})
        page.open(site)
        for name in ("Post", "Button"):
            pages.click(page, name)
        assert [request.method for request in site.requests] == ["GET", "POST", "POST"]


def test_both_engines_have_the_same_keys(engines: Any) -> None:
    wrong = ("Foo", "Ctrl+W", "Nokey", "a+", "", "\u00fc", "x" * 50, "a+b", "Tab+a", "Shift+Shift", "Alt+Alt+a")
    for key in (*wrong, "+".join("a" * 8000), "Shift+" * 8000 + "a"):
        errors = []
        for page in engines:
            page.open(pages.Pages({"/": "x"}))
            with pytest.raises(PageError) as error:
                page.press(key)
            errors.append(str(error.value))
        assert errors[0] == errors[1] and "is no key" in errors[0]
    _, chromium = engines
    for key in (*sorted(KEYS), "Control++", "Control+Shift+Alt+Meta+ArrowDown"):
        chromium.press(key)
