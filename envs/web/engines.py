"""The engines that show pages, by name, and the pictures that a browser adds to an observation."""

from __future__ import annotations

from typing import Any

from envs.types import Message
from envs.web.dom.dom_page import DomPage
from envs.web.page import VIEWPORT, Page

ENGINES = ("dom", "chromium")
VIEWS = ("text", "screenshot", "marks")


def open_engine(
    engine: str,
    view: str,
    browser: str | None,
    picture_size: tuple[int, int] = VIEWPORT,
    headed: bool = False,
    reachable: tuple[str, ...] = (),
) -> Page:
    """Return a page of an engine. The engine "chromium" needs the extra `web` and a browser.

    Args:
        engine: "dom" or "chromium".
        view: "text", "screenshot" or "marks".
        browser: Path of the browser's program; None to look for one.
        picture_size: Width and height of pictures in pixels.
        headed: Whether the browser has a window.
        reachable: Hosts with ports that pages can reach, besides the bundled sites.
    """
    if engine == "dom":
        return DomPage()
    from envs.web.browser import ChromiumPage

    return ChromiumPage(view=view, executable=browser, picture_size=picture_size, headed=headed, reachable=reachable)


def check_browser(engine: str, browser: str | None, headed: bool = False) -> None:
    """Raise ValueError for a program that is none, for a window without a display, and for what the engine lacks."""
    if browser is None and not headed:
        return
    name, value = ("browser", browser) if browser is not None else ("headed", headed)
    if engine == "dom":
        raise ValueError(f"{name} {value!r} needs engine 'chromium': without it there is no browser")
    from envs.web.browser.executable import check_display, find_browser

    if headed:
        check_display()
    if browser is not None:
        find_browser(browser)


def with_picture(text: str, page: Any) -> Message:
    """Return a user message of a page's text and its picture, a block `image_url`."""
    return {"role": "user", "content": [{"type": "text", "text": text}, page.picture()]}
