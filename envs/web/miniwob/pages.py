"""One task of MiniWoB++ as a site: the package's files, with a script that starts an episode and reports its end."""

from __future__ import annotations

import importlib.util
import json
import re
import threading
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

from envs.web.site import Request, Response
from envs.web.sites.html import NO_ICON
from sandboxes.extras import install_command

MAX_GOAL = 4000
_SCRIPT = Path(__file__).with_name("episode.js").read_text(encoding="utf-8")
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".png": "image/png",
    ".gif": "image/gif",
    ".jpg": "image/jpeg",
    ".svg": "image/svg+xml",
}
_SCRIPT_FILE = re.compile(r"""<script src=["']([^"']+\.js)["']></script>""")
_STYLE_FILE = re.compile(r"""<link rel="stylesheet"(?: type="text/css")? href="([^"]+\.css)">""")
_ADDRESS = re.compile(r"""url\(["']?(?!data:|#)([^"')]+)["']?\)""")


class MiniWoBSite:
    """The page of a task, whose episode is drawn from a seed. It reports to the site what happens.

    Args:
        task: Name of the task, such as "click-button".
        seed: What the page draws its episode from.

    Attributes:
        goal: What the page asks for; "" until it has begun.
        points: The page's own reward without its decay over time, -1 to 1; None until the episode has ended.
    """

    def __init__(self, task: str, seed: int) -> None:
        self.task, self.seed = task, seed
        self.start = f"/miniwob/{task}.html"
        self.goal = ""
        self.points: float | None = None
        self._has_begun = threading.Event()

    def respond(self, request: Request) -> Response:
        """Answer with a file of the package, or take a report of the page."""
        if request.method == "POST":
            return self._take(request)
        return self._file(request.path)

    def state(self) -> Mapping[str, Any]:
        """Return the goal and how the episode has ended."""
        return {"task": self.task, "seed": self.seed, "goal": self.goal, "points": self.points}

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in vars(self).items() if key != "_has_begun"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._has_begun = threading.Event()

    def begin(self, goal: str) -> None:
        """Take what the page asks for; its episode has begun."""
        self.goal = " ".join(goal.split())[:MAX_GOAL]
        self._has_begun.set()

    def wait(self, seconds: float) -> bool:
        """Wait until the page has begun its episode; return whether it has."""
        return self._has_begun.wait(seconds)

    def _take(self, request: Request) -> Response:
        if request.form.get("seed") != (str(self.seed),):  # a late report of the episode before this one
            return Response("")
        if request.path == "/begin":
            self.begin(request.form.get("goal", ("",))[0])
        elif request.path == "/end" and self.points is None:
            try:
                points = float(request.form.get("points", ("",))[0])
            except ValueError:
                points = 0.0
            self.points = points if -1.0 <= points <= 1.0 else 0.0
        return Response("")

    def _file(self, path: str) -> Response:
        file = _file_of(path)
        if file is None:
            return Response("<h1>Not found</h1>", status=404)
        kind = _TYPES[file.suffix]
        if path != self.start:
            return Response(body=file.read_bytes(), kind=kind)
        script = f"<script>{_SCRIPT.rstrip()}({json.dumps(str(self.seed))});</script>"
        return Response(_whole_page(path).replace("<head>", f"<head>{NO_ICON}{script}", 1), kind=kind)


@lru_cache(maxsize=32)
def _whole_page(path: str) -> str:
    """Return a page with its scripts and styles in it, so that one request loads it; a context has no cache yet."""

    def script(tag: re.Match[str]) -> str:
        text = _text_of(urljoin(path, tag[1]))
        is_safe = text is not None and not re.search(r"</script|<!--", text, re.IGNORECASE)
        return f"<script>{text}</script>" if is_safe else tag[0]

    def style(tag: re.Match[str]) -> str:
        place = urljoin(path, tag[1])
        text = _text_of(place)
        if text is None or "</style" in text.lower():
            return tag[0]
        return f"<style>{_ADDRESS.sub(lambda address: f'url({urljoin(place, address[1])})', text)}</style>"

    return _STYLE_FILE.sub(style, _SCRIPT_FILE.sub(script, _text_of(path) or ""))


def _text_of(path: str) -> str | None:
    """Return a file of the package as a text; None if it is not there or no UTF-8."""
    file = _file_of(path)
    try:
        return file.read_text(encoding="utf-8") if file else None
    except UnicodeDecodeError:
        return None


def _file_of(path: str) -> Path | None:
    """Return the file of the package under a path; None for what is no file of a page."""
    root = html_folder()
    file = (root / path.lstrip("/")).resolve()
    return file if file.is_relative_to(root) and file.is_file() and file.suffix in _TYPES else None


@lru_cache
def html_folder() -> Path:
    """Return the folder of the package's pages, without importing it. Raises ImportError where it is not installed."""
    spec = importlib.util.find_spec("miniwob")
    for place in (spec.submodule_search_locations or ()) if spec else ():
        if (folder := Path(place) / "html").is_dir():
            return folder.resolve()
    raise ImportError(f"web/MiniWoB-v0 needs miniwob: {install_command('web')}")
