"""What becomes of the faults of a site's code while a real browser shows its pages."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from envs.web.site import Request, Response
from sandboxes.source_files import user_code_line
from tests.support.pages import Pages, click, texts

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("chromium_installed")]


@pytest.fixture(scope="module")
def page() -> Iterator:
    from envs.web.browser import ChromiumPage

    page = ChromiumPage()
    yield page
    page.close()


class Faulty(Pages):
    """A site whose code fails on the path `/bug`."""

    def respond(self, request: Request) -> Response:
        if request.path == "/bug":
            raise KeyError("my bug")
        return super().respond(request)


class Careless(Pages):
    """A site that answers the path `/bad` with whatever it is given."""

    def __init__(self, pages: Mapping[str, str], answer: Any) -> None:
        super().__init__(pages)
        self.answer = answer

    def respond(self, request: Request) -> Response:
        return self.answer if request.path == "/bad" else super().respond(request)


@pytest.mark.parametrize(
    "html",
    [
        "<a href=/bug>Go</a>",
        "<form method=post action=/bug><button>Go</button></form>",
        "<button onclick=\"fetch('/bug')\">Go</button>",
        "<button onclick=\"window[Symbol.for('turnwise.outbox')].post('/bug', {a: 1})\">Go</button>",
        "<a href=/on>Go</a>",
    ],
)
def test_an_exception_of_the_sites_code_is_raised_in_the_environment(html, page, capfd):
    """It is the site's, as without a browser, and neither the policy's turn nor the browser's fault."""
    page.open(Faulty({"/": html, "/on": "-> /bug"}))
    with pytest.raises(KeyError, match="my bug") as error:
        click(page, "Go")
    assert user_code_line(error.value).startswith(__file__)
    lengths = []
    for _ in range(3):
        with pytest.raises(KeyError) as again:
            page.observe()
        lengths.append(len(traceback.extract_tb(again.value.__traceback__)))
    assert lengths == lengths[:1] * 3, "a traceback does not grow as it is raised again"
    page.open(Pages({"/": "<p>next</p>"}))
    assert texts(page) == ["next"] and capfd.readouterr().err == ""


def test_an_exception_on_the_first_page_is_raised_too(page):
    site = Faulty({})
    site.start = "/bug"
    with pytest.raises(KeyError, match="my bug"):
        page.open(site)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (None, "a Response, not with None"),
        ("x", "a Response, not with 'x'"),
        (Response(html=b"x"), "html is a str"),  # type: ignore[arg-type]
        (Response("x", status=99), "status is a number from 200"),
        (Response("x", status="200"), "status is a number from 200"),  # type: ignore[arg-type]
        (Response("x", kind="text/\u65e5"), "kind is a media type"),
        (Response("x", kind="text/html\r\nX: y"), "kind is a media type"),
    ],
)
def test_what_a_site_cannot_respond_with_is_an_error_of_its_code(answer: Any, words: str, page, capfd):
    page.open(Careless({"/": "<a href=/bad>Go</a>"}, answer))
    with pytest.raises((TypeError, ValueError), match=words):
        click(page, "Go")
    assert capfd.readouterr().err == ""
