"""Base class of the bundled sites: pages by their paths, over data that one episode owns."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from envs.messages import copy_value
from envs.web.site import Request, Response
from envs.web.sites.html import Markup, layout, paragraph

Handler = Callable[..., Any]
MAX_FIELD = 2000  # characters of a field of a form that count


class NotFound(Exception):
    """What a request names does not exist."""


def page(path: str) -> Callable[[Handler], Handler]:
    """Let a method answer requests for a path; one that ends in "/" also what follows it, as a second argument."""

    def mark(method: Handler) -> Handler:
        method.path = ("GET", path)  # type: ignore[attr-defined]
        return method

    return mark


def action(path: str) -> Callable[[Handler], Handler]:
    """Let a method take the forms that are sent to a path; it returns the path of the page that comes next."""

    def mark(method: Handler) -> Handler:
        method.path = ("POST", path)  # type: ignore[attr-defined]
        return method

    return mark


class App:
    """A site over `data`, JSON values in a dict. What it knows is there and nowhere else.

    A method with `page` returns the title of a page and its content; one with `action` changes the data and returns the
    path of the next page.

    Attributes:
        brand: Its name, which every page shows.
        accent: Its colour.
        links: The navigation: texts and paths.
        volatile_keys: The keys of `data` that tasks do not look at, such as what a form was left with.
    """

    start = "/"
    brand: ClassVar[str] = "Site"
    accent: ClassVar[str] = "#2456a6"
    links: ClassVar[Mapping[str, str]] = {}
    volatile_keys: ClassVar[frozenset[str]] = frozenset(("draft", "notice"))
    _handlers: ClassVar[Mapping[tuple[str, str], str]] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        methods = inspect.getmembers(cls, inspect.isfunction)
        cls._handlers = {method.path: name for name, method in methods if hasattr(method, "path")}

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data

    def respond(self, request: Request) -> Response:
        """Answer a request; an unknown path, and values that no page offers, with a page that says so."""
        try:
            return self._answer(request)
        except (NotFound, KeyError, IndexError, ValueError, OverflowError):
            text = paragraph("This page does not exist.")
            return Response(self._page("Page not found", text), status=404)

    def state(self) -> Mapping[str, Any]:
        """Return the data, which are read after every step: no copy."""
        return self.data

    def verified(self) -> dict[str, Any]:
        """Return a copy of the data that tasks look at."""
        return {key: copy_value(value) for key, value in self.data.items() if key not in self.volatile_keys}

    def fork(self) -> App:
        """Return a copy of the site, which shares nothing with it."""
        return type(self)(copy_value(self.data))

    def notify(self, text: str) -> None:
        """Show a message on the next page."""
        self.data["notice"] = text

    def may(self, right: str) -> bool:
        """Whether whoever uses the site may do something: everything, unless `data` has a list of `rights`."""
        return right in self.data.get("rights", (right,))

    def navigation(self) -> Mapping[str, str]:
        """Return the texts and paths of the navigation as it is now."""
        return self.links

    def _answer(self, request: Request) -> Response:
        is_prefix = request.path.endswith("/") and request.path != "/"  # of pages that have a name
        name = None if is_prefix else self._handlers.get((request.method, request.path))
        rest: tuple[str, ...] = ()
        head, _, tail = request.path.rpartition("/")
        if name is None and head and tail:
            name = self._handlers.get((request.method, f"{head}/"))
            rest = (tail,)
        if name is None:
            raise NotFound
        result = getattr(self, name)(request, *rest)
        if isinstance(result, Response):
            return result
        if request.method == "POST":
            return Response(location=result, status=303)
        title, content = result
        return Response(self._page(title, content, self.data.pop("notice", "")))

    def _page(self, title: str, content: Markup, notice: str = "") -> str:
        return layout(title, content, brand=self.brand, accent=self.accent, links=self.navigation(), notice=notice)


def one(values: Mapping[str, tuple[str, ...]], key: str, default: str = "") -> str:
    """Return the first value of a field of a form or query, without white space at its ends."""
    return values[key][0][:MAX_FIELD].strip() if values.get(key) else default


def many(values: Mapping[str, tuple[str, ...]], key: str) -> list[str]:
    """Return all values of a field."""
    return [value[:MAX_FIELD] for value in values.get(key, ())]
