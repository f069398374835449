"""Where the browser's program is."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# Debian's packages install these behind scripts; the script of the headless shell does not become the browser.
FILES = ("/usr/lib/chromium/chromium-headless-shell", "/usr/lib/chromium/chromium")
ADVICE = "install one by `playwright install chromium-headless-shell` or `apt-get install chromium-headless-shell`"

HEADED_ADVICE = "install one by `playwright install chromium` or `apt-get install chromium`"


def check_display() -> None:
    """Raise ValueError where a window has no display to be on."""
    if sys.platform.startswith("linux") and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        raise ValueError("headed: there is no display for a window; leave it out, or name one by the variable DISPLAY")


class MissingBrowser(ValueError):
    """This machine has no browser of the kind that is needed. The message is one line that says how to install one."""


def find_browser(name: str | None, bundled: str = "", *, headed: bool = False) -> str:
    """Return the path of a Chromium.

    Args:
        name: A path or the name of a program; None to take the first of Playwright's own and the system's.
        bundled: Where Playwright installs its own.
        headed: Whether it has to have a window, which the headless shell has not.

    Raises:
        MissingBrowser: There is none.
        ValueError: `name` is no program, or there is no display for its window.
    """
    if headed:
        check_display()
    if name is not None:
        path = shutil.which(os.path.expanduser(name))
        if path is None:
            raise ValueError(f"browser {name!r} is not a program that can be run; leave it out to look for one")
        return path
    candidates = [bundled, *FILES, *(shutil.which(program) or "" for program in PROGRAMS)]
    for path in candidates:
        is_fitting = not (headed and "headless" in Path(path).name)
        if path and is_fitting and Path(path).is_file() and os.access(path, os.X_OK):
            return path
    what, advice = ("Chromium with a window", HEADED_ADVICE) if headed else ("Chromium", ADVICE)
    why = f"there is no {what} on this machine; {advice}, or name one by browser=PATH"
    raise MissingBrowser(f"engine 'chromium': {why}")
