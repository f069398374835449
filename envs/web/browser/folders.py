"""The temporary folders of a browser: those that its driver removes unless it is killed, and one of its own."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from pathlib import Path

WAIT_S = 2.0  # for the end of a browser whose driver is gone
ABANDONED_S = 60.0  # age of a folder that no process has locked, beyond which it is one of a process that was killed
_PROFILE = b"--user-data-dir="
_PREFIX = "turnwise-browser-"
_MARKER = ".turnwise-browser"  # file in each folder that this module has made, which alone may be removed


class TempFolder:
    """A new temporary folder, locked until it is removed or its process ends.

    Before, those of processes that were killed are removed.

    Attributes:
        path: The folder.
    """

    def __init__(self) -> None:
        _remove_abandoned(Path(tempfile.gettempdir()))
        self.path = tempfile.mkdtemp(prefix=_PREFIX)
        self._lock = os.open(self.path, os.O_RDONLY)
        with contextlib.suppress(OSError):  # on a file system without locks
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        Path(self.path, _MARKER).touch()

    def remove(self) -> None:
        """Remove the folder with all that is in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def _remove_abandoned(home: Path) -> None:
    """Remove the folders of this user in `home` that hold the marker and that no living process has locked."""
    for path in home.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):  # it is locked, no folder of a browser, or another process has removed it
            lock = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_NONBLOCK)
            try:
                os.stat(_MARKER, dir_fd=lock, follow_symlinks=False)
                facts = os.fstat(lock)
                if facts.st_uid == os.getuid() and time.time() - facts.st_mtime > ABANDONED_S:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(lock)


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
