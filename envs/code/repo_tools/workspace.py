"""A folder of text files in memory, and what a policy may do with it: list, read, search, edit, write."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping

from envs.suggestions import unknown
from envs.types import ToolError

MOST_FILES, MOST_CHARS = 50, 100_000
HITS = 20
_PATH = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(?:/[A-Za-z0-9_][A-Za-z0-9_.-]*)*")
_LINES = re.compile(r"(\d{1,6})(?:\s*[-:]\s*(\d{1,6}))?")


class Workspace:
    """Files by path. Each method returns what is to be said; ToolError tells what cannot be done."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self.files = dict(files)

    @property
    def digest(self) -> str:
        """A short text that is equal for equal files."""
        text = json.dumps(sorted(self.files.items()))
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()

    def listing(self) -> str:
        """The paths, in order."""
        return "\n".join(sorted(self.files))

    def read(self, path: str, lines: str = "") -> str:
        """A file, or those of its lines, counted from 1, that `lines` names: `3` or `3-9`."""
        text = self._at(path)
        if not lines.strip():
            return text.rstrip("\n") or "empty"
        asked = _LINES.fullmatch(lines.strip())
        if not asked:
            raise ToolError(f"lines {lines!r} are not like 3 or 3-9")
        first = int(asked[1])
        found = text.splitlines()[max(0, first - 1) : int(asked[2] or first)]
        return "\n".join(found) or "no such lines"

    def search(self, text: str) -> str:
        """The lines that hold a text, as `path:number: line`."""
        found = [
            f"{path}:{number}: {line.strip()}"
            for path, content in sorted(self.files.items())
            for number, line in enumerate(content.splitlines(), 1)
            if text in line
        ]
        more = [f"{len(found) - HITS} more"] if len(found) > HITS else []
        return "\n".join([*found[:HITS], *more]) or "none"

    def edit(self, path: str, old: str, new: str) -> str:
        """Put one text in the place of another, which the file must have once."""
        text = self._at(path)
        number = text.count(old) if old else 0
        if number != 1:
            raise ToolError(f"{path} has this text {number} times" if number else f"{path} does not have this text")
        return self.write(path, text.replace(old, new))

    def write(self, path: str, content: str) -> str:
        """Make a file, or replace it."""
        if not _PATH.fullmatch(path):
            raise ToolError(f"path {path[:60]!r} is not a plain one inside the repository")
        if any(other.startswith(f"{path}/") or path.startswith(f"{other}/") for other in self.files):
            raise ToolError(f"{path} would be a file and a folder")
        after = {**self.files, path: content.encode("utf-8", "replace").decode()}
        if len(after) > MOST_FILES or sum(map(len, after.values())) > MOST_CHARS:
            raise ToolError(f"no room: at most {MOST_FILES} files and {MOST_CHARS} characters")
        self.files = after
        return "ok"

    def _at(self, path: str) -> str:
        if path not in self.files:
            raise ToolError(unknown("file", path, self.files))
        return self.files[path]
