"""Memory limits for all processes of a place (the tree that runs a program), by control groups, version 1 or 2.

They need the right to make a group: root, or a subtree that is delegated to the user. Without, `Parent.make` is None.
"""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import dataclass
from pathlib import Path

PREFIX = "turnwise-"
_V1 = {"limit": "memory.limit_in_bytes", "swap": "memory.memsw.limit_in_bytes", "events": "memory.oom_control"}
_V2 = {"limit": "memory.max", "swap": "memory.swap.max", "events": "memory.events"}


@dataclass(slots=True)
class Group:
    """One control group, as open descriptors of its files.

    The warden, the process of a place that uses them, has no right to open the files itself.
    """

    version: int
    procs_file: int  # a process that writes "0" to it enters the group
    limit_file: int
    swap_file: int | None
    events_file: int
    limit_mb: int = 0

    @classmethod
    def make(cls, parent: Parent, name: str) -> Group:
        """Make the control group `name` below the parent. Raises OSError where it exists or the kernel refuses."""
        os.mkdir(name, dir_fd=parent.folder)
        names = _V1 if parent.version == 1 else _V2
        folder = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=parent.folder)
        try:
            swap = None
            with contextlib.suppress(OSError):  # kernels without swap accounting have no such file
                swap = os.open(names["swap"], os.O_WRONLY | os.O_CLOEXEC, dir_fd=folder)
            procs = os.open("cgroup.procs", os.O_WRONLY | os.O_CLOEXEC, dir_fd=folder)
            limit = os.open(names["limit"], os.O_WRONLY | os.O_CLOEXEC, dir_fd=folder)
            events = os.open(names["events"], os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
        finally:
            os.close(folder)
        return cls(parent.version, procs, limit, swap, events)

    def limit(self, memory_mb: int) -> None:
        """Let all processes of the group use `memory_mb` MiB together, and no swap."""
        if memory_mb == self.limit_mb:
            return
        size = str(memory_mb << 20).encode()
        swap = size if self.version == 1 else b"0"  # version 1 limits memory and swap together
        if self.version == 1 and self.swap_file:
            os.pwrite(self.swap_file, b"-1", 0)  # it must never be below the limit of memory
        os.pwrite(self.limit_file, size, 0)
        if self.swap_file:
            os.pwrite(self.swap_file, swap, 0)
        self.limit_mb = memory_mb

    def oom_kills(self) -> int:
        """How many processes of the group were killed for exceeding the limit so far."""
        match = re.search(rb"^oom_kill (\d+)", os.pread(self.events_file, 4096, 0), re.MULTILINE)
        return int(match.group(1)) if match else 0


@dataclass(frozen=True, slots=True)
class Parent:
    """The folder of the control groups of one zygote, the process that places are forked from; one group per place."""

    path: Path
    folder: int
    version: int

    @classmethod
    def make(cls, root: Path = Path("/sys/fs/cgroup"), memberships: Path = Path("/proc/self/cgroup")) -> Parent | None:
        """Make a folder where the kernel lets groups have a memory limit, or return None where there is none.

        `root` is where control groups are mounted; `memberships` lists those of this process.
        """
        for version, folder in _folders(root, memberships):
            path = folder / f"{PREFIX}{os.getpid()}"
            try:
                _remove_stale(folder)
                path.mkdir()
            except OSError:
                continue
            try:
                if version == 2:
                    _enable_memory(path)
                if (path / (_V1 if version == 1 else _V2)["limit"]).exists():
                    return cls(path, os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC), version)
            except OSError:
                pass
            path.rmdir()
        return None

    def remove(self) -> None:
        """Remove the folder with its groups, in which nothing may run any more."""
        _remove(self.path)
        os.close(self.folder)


def _folders(root: Path, memberships: Path) -> list[tuple[int, Path]]:
    """(version, folder) where a group may be made: this process's own group, then, in version 2, the one above."""
    folders = []
    try:
        lines = memberships.read_text().splitlines()
    except OSError:
        return []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            folders.append((1, root / "memory" / path.lstrip("/")))
        elif not controllers and (root / "cgroup.controllers").exists():
            own = root / path.lstrip("/")
            folders += [(2, own), (2, own.parent)] if own != root else [(2, own)]
    return folders


def _enable_memory(path: Path) -> None:
    descriptor = os.open(path / "cgroup.subtree_control", os.O_WRONLY)
    try:
        os.write(descriptor, b"+memory")
    finally:
        os.close(descriptor)


def _remove_stale(folder: Path) -> None:
    """Remove the groups of hosts that were killed together with their launchers."""
    for path in folder.glob(f"{PREFIX}*"):
        pid = path.name.removeprefix(PREFIX)
        if pid.isdigit() and not Path("/proc", pid).exists():
            _remove(path)


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        for group in path.iterdir():
            if group.is_dir():
                with contextlib.suppress(OSError):
                    group.rmdir()
        path.rmdir()
