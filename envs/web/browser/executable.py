"""Where the browser's program is."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# Debian's packages install these behind scripts; the script of the headless shell does not become the browser.
FILES = ("/usr/lib/chromium/chromium-headless-shell", "/usr/lib/chromium/chromium")
ADVICE = "install one by `playwright install chromium-headless-shell` or `apt-get install chromium-headless-shell`"


def find_browser(name: str | None, bundled: str = "") -> str:
    """Return the path of a Chromium.

    Args:
        name: A path or the name of a program; None to take the first of Playwright's own and the system's.
        bundled: Where Playwright installs its own.

    Raises:
        ValueError: `name` is no program, or there is none.
    """
    if name is not None:
        path = shutil.which(os.path.expanduser(name))
        if path is None:
            raise ValueError(f"browser {name!r} is not a program that can be run; leave it out to look for one")
        return path
    candidates = [bundled, *FILES, *(shutil.which(program) or "" for program in PROGRAMS)]
    for path in candidates:
        if path and Path(path).is_file() and os.access(path, os.X_OK):
            return path
    raise ValueError(f"engine 'chromium': there is no Chromium on this machine; {ADVICE}, or name one by browser=PATH")
