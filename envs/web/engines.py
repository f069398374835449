"""The engines that show pages, by name, and the pictures that a browser adds to an observation."""

from __future__ import annotations

from typing import Any

from envs.types import Message
from envs.web.dom.dom_page import DomPage
from envs.web.page import Page

ENGINES = ("dom", "chromium")
VIEWS = ("text", "screenshot", "marks")


def open_engine(engine: str, view: str, browser: str | None) -> Page:
    """Return a page of an engine. The engine "chromium" needs the extra `web` and a browser.

    Args:
        engine: "dom" or "chromium".
        view: "text", "screenshot" or "marks".
        browser: Path of the browser's program; None to look for one.
    """
    if engine == "dom":
        return DomPage()
    from envs.web.browser import ChromiumPage

    return ChromiumPage(view=view, executable=browser)


def check_browser(engine: str, browser: str | None) -> None:
    """Raise ValueError for a program that is none, or that the engine does not use."""
    if browser is None:
        return
    if engine == "dom":
        raise ValueError(f"browser {browser!r} needs engine 'chromium': without it there is no browser")
    from envs.web.browser.executable import find_browser

    find_browser(browser)


def with_picture(text: str, page: Any) -> Message:
    """Return a user message of a page's text and its picture, a block `image_url`."""
    return {"role": "user", "content": [{"type": "text", "text": text}, page.picture()]}
