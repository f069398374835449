"""A site: a program that answers requests with pages and holds all of its state on the server's side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True)
class Request:
    """A request for a page.

    Attributes:
        path: The path, such as "/cart".
        query: The parameters of the address, with all values of each in order.
        form: The fields of a submitted form; empty for "GET".
        method: "GET" or "POST".
    """

    path: str
    query: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    form: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    method: str = "GET"


@dataclass(frozen=True)
class Response:
    """An answer: a page of HTML, or with `location` a redirection (303) to that path.

    A browser may also be answered with the bytes of a file, `body`, whose media type is `kind`.
    """

    html: str = ""
    location: str = ""
    status: int = 200
    body: bytes = b""
    kind: str = "text/html; charset=utf-8"


@dataclass(frozen=True)
class LiveSite:
    """Pages that another program serves, which only the engine "chromium" can show.

    Attributes:
        start: The whole address of the first page.
        origins: Origins that links may lead to, such as `http://127.0.0.1:7770`.
        storage: A file of cookies and local storage to begin with, as Playwright writes it; None for nothing.
    """

    start: str
    origins: tuple[str, ...]
    storage: str | None = None


class Site(Protocol):
    """The site of one episode. Its pages load nothing from elsewhere: styles and pictures stand in the HTML.

    Attributes:
        start: The path of its first page.
    """

    start: str

    def respond(self, request: Request) -> Response:
        """Answer a request; an unknown path with a page that says so and status 404. It never raises for bad input."""

    def state(self) -> Mapping[str, Any]:
        """Return everything that the site knows, as values that JSON has, which are not to be changed."""
