"""Replies on disk, by the digest of all that they depend on: what makes an evaluation resumable after a kill."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

VERSION = 1  # of what a file holds


class ReplyCache:
    """One JSON file per reply, written aside and renamed, so that a kill leaves whole files only.

    Processes may share a folder. The default folder lies in `TURNWISE_CACHE`, else in `~/.cache/turnwise`. Raises
    `OSError` where it cannot be made.
    """

    def __init__(self, folder: Path | None = None) -> None:
        home = Path(os.environ.get("TURNWISE_CACHE") or Path.home() / ".cache" / "turnwise")
        self.folder = folder or home / "replies"
        self.folder.mkdir(parents=True, exist_ok=True)
        if not os.access(self.folder, os.W_OK):
            raise PermissionError(13, "not writable; name another folder by TURNWISE_CACHE", str(self.folder))

    def get(self, digest: str) -> Any:
        """What was put under `digest`; None where nothing was, or nothing readable."""
        try:
            return json.loads(self._path(digest).read_bytes())
        except (OSError, ValueError):
            return None

    def put(self, digest: str, value: Any) -> None:
        """Keep a JSON-able value. Raises `OSError`."""
        path = self._path(digest)
        path.parent.mkdir(exist_ok=True)
        aside = path.with_suffix(f".{os.getpid()}.partial")
        aside.write_text(json.dumps(value), encoding="ascii")
        aside.replace(path)

    def _path(self, digest: str) -> Path:
        return self.folder / digest[:2] / f"{digest}.json"


def digest(*parts: Any) -> str:
    """A name for JSON-able values: equal for equal ones, in every process."""
    return hashlib.sha256(json.dumps([VERSION, *parts], sort_keys=True).encode()).hexdigest()[:40]
