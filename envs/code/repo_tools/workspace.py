"""A folder of text files in memory that a policy can list, read, search, edit and write."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping

from envs.suggestions import unknown_message
from envs.types import ToolError

MAX_FILES, MAX_CHARS = 50, 100_000
MAX_MATCHES = 20  # lines that a search shows
_PATH = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(?:/[A-Za-z0-9_][A-Za-z0-9_.-]*)*")
_LINES = re.compile(r"(\d{1,6})(?:\s*[-:]\s*(\d{1,6}))?")


class Workspace:
    """Text files by path, in memory. A command returns what the policy is shown; ToolError if it cannot be done."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self.files = dict(files)

    @property
    def digest(self) -> str:
        """A short hash of the files in hex, equal for equal files."""
        text = json.dumps(sorted(self.files.items()))
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()

    def listing(self) -> str:
        """List the paths of all files, sorted, one a line."""
        return "\n".join(sorted(self.files))

    def read(self, path: str, lines: str = "") -> str:
        """Return a file's text or, where `lines` is `3` or `3-9`, these of its lines, counted from 1.

        "empty" and "no such lines" stand for no text. Raises ToolError for an unknown path or other `lines`.
        """
        text = self._content(path)
        if not lines.strip():
            return text.rstrip("\n") or "empty"
        bounds = _LINES.fullmatch(lines.strip())
        if not bounds:
            raise ToolError(f"lines {lines!r} are not like 3 or 3-9")
        first = int(bounds[1])
        selection = text.splitlines()[max(0, first - 1) : int(bounds[2] or first)]
        return "\n".join(selection) or "no such lines"

    def search(self, text: str) -> str:
        """List the lines that contain a text, in any file, as `path:number: line`; "none" if no line does.

        At most `MAX_MATCHES` lines are listed, then `3 more`.
        """
        matches = [
            f"{path}:{number}: {line.strip()}"
            for path, content in sorted(self.files.items())
            for number, line in enumerate(content.splitlines(), 1)
            if text in line
        ]
        more = [f"{len(matches) - MAX_MATCHES} more"] if len(matches) > MAX_MATCHES else []
        return "\n".join([*matches[:MAX_MATCHES], *more]) or "none"

    def edit(self, path: str, old: str, new: str) -> str:
        """Replace the text `old`, which the file must contain exactly once, and return "ok".

        Raises ToolError for an unknown path, for another number of occurrences, and if the files would be too large.
        """
        text = self._content(path)
        count = text.count(old) if old else 0
        if count != 1:
            raise ToolError(f"{path} has this text {count} times" if count else f"{path} does not have this text")
        return self.write(path, text.replace(old, new))

    def write(self, path: str, content: str) -> str:
        """Create or replace a file and return "ok".

        Raises ToolError for a path that is absolute, leaves the folder or has odd characters, for one that would be a
        file and a folder, and for more than `MAX_FILES` files or `MAX_CHARS` characters in all.
        """
        if not _PATH.fullmatch(path):
            raise ToolError(f"path {path[:60]!r} is not a plain one inside the repository")
        if any(other.startswith(f"{path}/") or path.startswith(f"{other}/") for other in self.files):
            raise ToolError(f"{path} would be a file and a folder")
        after = {**self.files, path: content.encode("utf-8", "replace").decode()}
        if len(after) > MAX_FILES or sum(map(len, after.values())) > MAX_CHARS:
            raise ToolError(f"no room: at most {MAX_FILES} files and {MAX_CHARS} characters")
        self.files = after
        return "ok"

    def _content(self, path: str) -> str:
        if path not in self.files:
            raise ToolError(unknown_message("file", path, self.files))
        return self.files[path]
