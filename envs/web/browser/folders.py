"""The temporary folders of a browser, which its driver removes unless it is killed."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from pathlib import Path

WAIT_S = 2.0  # for the end of a browser whose driver is gone
_PROFILE = b"--user-data-dir="


class BrowserFolders:
    """The profile of a running browser, and the empty folder for artifacts that its driver has made before it.

    Args:
        pid: The browser's process.
        launch_time: When it was launched, in seconds since the epoch. A folder for artifacts that was made since then
            counts as this browser's, and is removed if it is empty.
    """

    def __init__(self, pid: int, launch_time: float) -> None:
        self.pid = pid
        self.paths: list[Path] = []
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            profile = Path(
                os.fsdecode(next(word.removeprefix(_PROFILE) for word in words if word.startswith(_PROFILE)))
            )
            others = [
                each
                for each in profile.parent.glob("playwright-artifacts-*")
                if each.stat().st_ctime >= launch_time - 0.05 and each.stat().st_uid == os.getuid()
            ]
            self.paths = [profile, *others]

    def remove(self) -> None:
        """Remove what is left after the driver's end, once the browser has ended too."""
        if not any(path.exists() for path in self.paths):
            return
        end = time.monotonic() + WAIT_S
        while Path(f"/proc/{self.pid}").exists() and time.monotonic() < end:
            time.sleep(0.02)
        for profile in self.paths[:1]:
            shutil.rmtree(profile, ignore_errors=True)
        for path in self.paths[1:]:
            with contextlib.suppress(OSError):  # not empty, so of somebody else
                path.rmdir()
