"""Addresses that lead out of a site, and those that do not, in the engine without a browser."""

from __future__ import annotations

import pytest

from envs.web.dom.dom_page import DomPage
from envs.web.page import PageError
from tests.support.addresses import ELSEWHERE, WITHIN
from tests.support.pages import Pages, click

FORMS = (
    "<form method=post action='{}'><input name=q><button>Send</button></form>",
    "<form action='{}'><input name=q><button>Send</button></form>",
    "<form method=post action=/pay><input name=q><button formaction='{}'>Send</button></form>",
)


def open_page(html: str, **pages: str) -> tuple[DomPage, Pages]:
    page, site = DomPage(), Pages({"/": html, **{f"/{name}": each for name, each in pages.items()}})
    page.open(site)
    return page, site


@pytest.mark.parametrize("address", ELSEWHERE)
@pytest.mark.parametrize("html", FORMS)
def test_a_form_of_another_site_is_not_sent(html: str, address: str) -> None:
    page, site = open_page(html.format(address), pay="paid")
    elements = page.observe().elements()
    for act in (lambda: page.click(2), lambda: page.type(1, "x", submit=True)):
        with pytest.raises(PageError, match="leads out of this site"):
            act()
    assert [each.name for each in page.observe().elements()] == [each.name for each in elements]
    assert len(site.requests) == 1


@pytest.mark.parametrize("address", ELSEWHERE)
def test_a_redirection_to_another_site_is_not_followed(address: str) -> None:
    page, site = open_page("<a href=/go>Go</a>", go=f"-> {address}", pay="paid")
    with pytest.raises(PageError, match="leads out of this site"):
        click(page, "Go")
    assert page.observe().url == "/" and site.requests[-1].path == "/go"


@pytest.mark.parametrize("address", WITHIN)
@pytest.mark.parametrize("html", ["<a href='{}'>Send</a>", *FORMS])
def test_an_address_within_the_site_is_read_as_a_browser_reads_it(html: str, address: str) -> None:
    page, site = open_page(html.format(address), pay="paid")
    click(page, "Send")
    assert site.requests[-1].path == "/pay"
