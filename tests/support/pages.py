"""Sites of a few written pages, for tests of the engines that show them."""

from __future__ import annotations

from collections.abc import Mapping

from envs.web.page import Element, Page, Text
from envs.web.site import Response
from tests.support import web_scripts


class Pages(web_scripts.Pages):
    """A site of a few titled pages by path; `-> /path` in place of HTML is a redirection."""

    def __init__(self, pages: Mapping[str, str]) -> None:
        super().__init__(
            {
                path: Response(location=html[3:]) if html.startswith("-> ") else f"<title>T</title>{html}"
                for path, html in pages.items()
            }
        )


def texts(page: Page) -> list[str]:
    """The runs of text that the page shows."""
    return [node.content for node in page.observe().nodes if isinstance(node, Text)]


def element(page: Page, name: str) -> Element:
    """The element of this name."""
    (found,) = [each for each in page.observe().elements() if each.name == name]
    return found


def click(page: Page, name: str) -> None:
    """Click the element of this name."""
    page.click(element(page, name).index)
