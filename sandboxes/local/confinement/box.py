"""The box of a place: the folders that programs can write to, and how trusted processes reach them.

Programs own what is in the box, and may own the box itself: they rename, delete and link it as they like. So nothing
here is reached by a path once a program has run, but beneath descriptors that were opened before, without following
links.
"""

from __future__ import annotations

import math
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Protocol

from sandboxes.local.confinement import syscalls

BOX = "/box"  # where it is mounted, for places with a mount namespace
FOLDERS = ("work", "tmp", "shm")  # in the box
_MODE = 0o755  # of each folder
_MAX_DEPTH = 200  # of folders that are counted; what is nested more deeply counts as too much
_MANY_FILES, _MAX_MB = 500, 1 << 40  # files that are removed between two calls; more than any disk has
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Box(Protocol):
    """The folders "work", "tmp" and "shm" of one place, a process tree that runs one program at a time.

    Attributes:
        path: Where programs see it.
        work: Open descriptor of the working directory, valid until the next `renew` or `repair`.
        outlives_renewal: Whether `work`, sent to another process, still shows the old files after `renew`.
    """

    path: str
    work: int
    outlives_renewal: bool

    def renew(self, disk_mb: int, files: int) -> None:
        """Empty the box: nothing of its old content is reachable. It takes `disk_mb` MiB and `files` files from now on.

        Raises OSError where the kernel refuses.
        """

    def repair(self) -> None:
        """Make the working directory usable again, whatever programs have done to it; what they left in it stays.

        Raises OSError where that is impossible.
        """

    def is_over(self, disk_mb: int, files: int) -> bool:
        """Whether it holds more than that; False where the kernel sees to it."""

    def is_crowded(self) -> bool:
        """Whether to empty it would delay the next call; the place must be given up then."""


class MountedBox:
    """A box in memory, mounted anew for each renewal. See `Box`. The kernel limits its size and its number of files."""

    outlives_renewal = True

    def __init__(self, owner: int | None) -> None:
        """`owner` is the uid of programs; None if it is that of this process."""
        self.path, self.owner, self.work = BOX, owner, -1

    def renew(self, disk_mb: int, files: int) -> None:
        """Mount an empty box over none, in place of the old one.

        No program can rename or remove its folders: they belong to a user that it is not, or, where there is only one
        user, are mounts in a folder that is read-only.
        """
        if self.work >= 0:
            os.close(self.work)
            self.work = -1
            syscalls.unmount(BOX)
        options = f"size={disk_mb}m,nr_inodes={files + len(FOLDERS) + 1},mode=0755"
        syscalls.mount("tmpfs", BOX, "tmpfs", syscalls.NOSUID | syscalls.NODEV, options)
        for name in FOLDERS:
            folder = f"{BOX}/{name}"
            os.mkdir(folder, _MODE)
            if self.owner is None:
                syscalls.mount(folder, folder, None, syscalls.BIND)
            else:
                os.chown(folder, self.owner, self.owner)
        if self.owner is None:
            syscalls.make_read_only(BOX, recursive=False)
        self.work = os.open(f"{BOX}/work", _DIRECTORY)

    def repair(self) -> None:
        """Restore the right to enter the working directory, all that a program can take away."""
        _make_accessible(self.work)

    def is_over(self, disk_mb: int, files: int) -> bool:
        """Return False: the kernel refuses more than the limits."""
        return False

    def is_crowded(self) -> bool:
        """Return False: an old box is unmounted, not emptied."""
        return False


class FolderBox:
    """A box in a plain folder, emptied for each renewal. See `Box`.

    Where programs are the user that owns the folder, they may do anything to it: it is made anew where they remove it.
    """

    outlives_renewal = False

    def __init__(self, path: str, *, owner: int | None = None) -> None:
        """Use the folder `path`: a new one, or, with the uid of programs as `owner`, one that exists.

        None as `owner` stands for the uid of this process. What an earlier place has left at `path` is then removed in
        the background.
        """
        self.path, self.owner, self.work, self._home = path, owner, -1, -1
        self._new_state: list[Any] = []  # when the folders were new
        if owner is None and os.path.lexists(path):
            old = f"{path}.{os.urandom(8).hex()}"
            os.rename(path, old)
            if not _remove_unless_folder(old):
                _remove_in_background(old)

    def renew(self, disk_mb: int, files: int) -> None:
        """Remove everything in the folder, and make new ones: permissions, times and attributes are those of new ones.

        The limits are not enforced here; see `is_over`.
        """
        self._open_home()
        if self.work >= 0 and self._state() == self._new_state:
            return
        _remove_content(self._home)
        for name in FOLDERS:
            self._make_folder(name)
        self._open_work()
        self._new_state = self._state()

    def repair(self) -> None:
        """Make the working directory anew, and empty, where a program has removed, renamed or replaced it."""
        self._open_home()
        for name in FOLDERS:
            if _remove_unless_folder(name, self._home):
                self._make_folder(name)
        self._open_work()

    def is_over(self, disk_mb: int, files: int) -> bool:
        """Count files and the blocks that they take. Files that were deleted but are still open are not found.

        Returns False where programs are another user: whoever made the folder has limited its size then.
        """
        if self.owner is not None:
            return False
        blocks, count, max_blocks = 0.0, 0, disk_mb << 11
        for size in _block_counts(self._home, _MAX_DEPTH):
            blocks, count = blocks + size, count + 1
            if count > files + len(FOLDERS) or blocks > max_blocks:
                return True
        return False

    def is_crowded(self) -> bool:
        """Whether it holds some hundreds of files, where the kernel does not limit their number."""
        return self.is_over(_MAX_MB, _MANY_FILES)

    def _state(self) -> list[Any]:
        """All of the box that another program could see, if it is as it was made; else something different."""
        state: list[Any] = []
        for name, is_folder in sorted(_entries(self._home)):
            folder = os.stat(name, dir_fd=self._home, follow_symlinks=False)
            state.append((name, folder.st_ino, folder.st_mode, folder.st_size, folder.st_ctime_ns))
            if is_folder and folder.st_mode & 0o700 == 0o700:
                inner = _open_folder(name, self._home)
                state.append(_entries(inner))
                os.close(inner)
        return state

    def _open_home(self) -> None:
        """Have a descriptor of the box's own folder; both are made anew if the folder was removed."""
        if self._home >= 0:
            if os.fstat(self._home).st_nlink:
                if self.owner is None:
                    _make_accessible(self._home)
                return
            os.close(self._home)
            self._home = -1
        if self.owner is None:
            for path in (os.path.dirname(self.path), self.path):
                _remove_unless_folder(path)
                with suppress(FileExistsError):
                    os.mkdir(path, 0o700)
        self._home = _open_folder(self.path)

    def _make_folder(self, name: str) -> None:
        os.mkdir(name, _MODE, dir_fd=self._home)
        if self.owner is not None:
            os.chown(name, self.owner, self.owner, dir_fd=self._home, follow_symlinks=False)

    def _open_work(self) -> None:
        if self.work >= 0:
            os.close(self.work)
            self.work = -1
        self.work = _open_folder("work", self._home)


def _open_folder(name: str, parent: int | None = None) -> int:
    """Open a folder, beneath an open one, whose owner may have lost the right to enter it. Follows no link."""
    handle = os.open(name, os.O_PATH | _DIRECTORY, dir_fd=parent)
    try:
        if os.fstat(handle).st_mode & 0o700 != 0o700:
            os.chmod(f"/proc/self/fd/{handle}", _MODE)  # by its path a link could have taken its place meanwhile
        return os.open(".", _DIRECTORY, dir_fd=handle)
    finally:
        os.close(handle)


def _make_accessible(folder: int) -> None:
    if os.fstat(folder).st_mode & 0o700 != 0o700:
        os.fchmod(folder, _MODE)


def _remove_unless_folder(path: str, parent: int | None = None) -> bool:
    """Remove what is at the path if it is no folder, a link to one included; whether nothing is there now."""
    try:
        if stat.S_ISDIR(os.stat(path, dir_fd=parent, follow_symlinks=False).st_mode):
            return False
        os.unlink(path, dir_fd=parent)
    except FileNotFoundError:
        pass
    return True


def _entries(folder: int) -> list[tuple[str, bool]]:
    """Name of each entry of an open folder, and whether it is a folder."""
    with os.scandir(folder) as entries:
        return [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]


def _remove_content(folder: int) -> None:
    """Remove everything in a folder. Nested folders are moved up first, so no path is long and nothing recurses."""
    count, prefix = 0, os.urandom(8).hex()  # names that a program cannot foresee
    while entries := _entries(folder):
        for name, is_folder in entries:
            if not is_folder:
                os.unlink(name, dir_fd=folder)
                continue
            inner = _open_folder(name, folder)
            try:
                for deeper, is_deep in _entries(inner):
                    if is_deep:
                        os.close(_open_folder(deeper, inner))  # only a folder that can be entered can be moved
                        count += 1
                        os.rename(deeper, f"{prefix}{count}", src_dir_fd=inner, dst_dir_fd=folder)
                    else:
                        os.unlink(deeper, dir_fd=inner)
            finally:
                os.close(inner)
            os.rmdir(name, dir_fd=folder)


def _remove_in_background(path: str) -> None:
    """Remove a folder in a process of its own that nobody waits for."""
    if pid := os.fork():
        os.waitpid(pid, 0)
        return
    try:
        if not os.fork():
            folder = _open_folder(path)
            _remove_content(folder)
            os.rmdir(path)
            with suppress(OSError):  # the sandbox was closed meanwhile, which could not remove this
                os.rmdir(os.path.dirname(path))
    finally:
        os._exit(0)


def _block_counts(folder: int, depth: int) -> Iterator[float]:
    """Blocks of 512 bytes of each file and folder in an open folder; infinite for what is nested too deeply."""
    with os.scandir(folder) as entries:
        for entry in entries:
            try:
                yield entry.stat(follow_symlinks=False).st_blocks
                if not entry.is_dir(follow_symlinks=False):
                    continue
                if not depth:
                    yield math.inf
                    return
                inner = os.open(entry.name, _DIRECTORY, dir_fd=folder)
            except OSError:  # the program has removed it meanwhile
                continue
            try:
                yield from _block_counts(inner, depth - 1)
            finally:
                os.close(inner)
