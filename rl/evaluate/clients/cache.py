"""Cache of an API's replies on disk, which lets an evaluation that was killed continue where it stopped."""

from __future__ import annotations

import hashlib
import json
import logging
import os
from pathlib import Path
from typing import Any

from rl import checksums

VERSION = 1  # of the requests that digests are made of

log = logging.getLogger(__name__)


class ReplyCache:
    """One file per reply, in a folder that several processes may share: a line with its digest, then JSON.

    Files are written under a temporary name and renamed, so a killed process leaves no partial reply. The default
    folder is `replies` in `TURNWISE_CACHE`, or in `~/.cache/turnwise` without that variable. Raises `OSError` if the
    folder cannot be created or written.
    """

    def __init__(self, folder: Path | None = None) -> None:
        home = Path(os.environ.get("TURNWISE_CACHE") or Path.home() / ".cache" / "turnwise")
        self.folder = folder or home / "replies"
        self.folder.mkdir(parents=True, exist_ok=True)
        if not os.access(self.folder, os.W_OK):
            raise PermissionError(13, "not writable; name another folder by TURNWISE_CACHE", str(self.folder))

    def get(self, digest: str) -> Any:
        """Return the value stored under `digest` (of `digest()`); None if there is none or its file is damaged.

        A damaged file is reported in one line.
        """
        path = self._path(digest)
        try:
            content = path.read_bytes()
        except OSError:
            return None
        first, mark, rest = content.partition(b"\n")
        # A file of an older version is JSON without a digest before it.
        is_intact = checksums.digest(rest).encode() == first if mark else content.startswith(b"{")
        try:
            if is_intact:
                return json.loads(rest or content)
        except ValueError:
            pass
        log.warning("%s is damaged and not used; the reply is asked for again", path)
        return None

    def put(self, digest: str, value: Any) -> None:
        """Store a JSON-serialisable value under `digest`. Raises `OSError` if it cannot be written."""
        path = self._path(digest)
        path.parent.mkdir(exist_ok=True)
        partial = path.with_suffix(f".{os.getpid()}.partial")
        text = json.dumps(value)
        partial.write_text(f"{checksums.digest(text.encode())}\n{text}", encoding="ascii")
        partial.replace(path)

    def _path(self, digest: str) -> Path:
        return self.folder / digest[:2] / f"{digest}.json"


def digest(*parts: Any) -> str:
    """Hash JSON-serialisable values to 40 hex digits: equal values have equal digests, in every process."""
    return hashlib.sha256(json.dumps([VERSION, *parts], sort_keys=True).encode()).hexdigest()[:40]
