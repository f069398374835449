"""Sites of a few written pages, for tests of the engines that show them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from envs.web.page import Element, Page, Text
from envs.web.site import Request, Response


class Pages:
    """A site that shows HTML by path, and remembers what was asked of it."""

    def __init__(self, pages: Mapping[str, str], start: str = "/") -> None:
        self.start = start
        self.pages = dict(pages)
        self.requests: list[Request] = []

    def respond(self, request: Request) -> Response:
        """Answer with the page of this path; `-> /path` is a redirection."""
        self.requests.append(request)
        html = self.pages.get(request.path)
        if html is None:
            return Response("<h1>Not found</h1>", status=404)
        return Response(location=html[3:]) if html.startswith("-> ") else Response(f"<title>T</title>{html}")

    def state(self) -> Mapping[str, Any]:
        """Say how often each path was asked for."""
        return {"requests": len(self.requests)}


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
