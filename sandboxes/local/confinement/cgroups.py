"""A memory limit that counts all processes of a place together, by the kernel's control groups, version 1 or 2.

Needs the right to make a group: root, or a subtree that was delegated to the user. Without it `Group.make` gives None.
"""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import dataclass
from pathlib import Path

MARK = "turnwise-"
_V1 = {"limit": "memory.limit_in_bytes", "swap": "memory.memsw.limit_in_bytes", "events": "memory.oom_control"}
_V2 = {"limit": "memory.max", "swap": "memory.swap.max", "events": "memory.events"}


@dataclass(slots=True)
class Group:
    """One group. Its files are opened by who makes it, and used by a warden that has not the right to open them."""

    version: int
    entrance: int  # a descriptor; who writes "0" to it, enters
    limit_file: int
    swap_file: int | None
    events_file: int
    limited_mb: int = 0

    @classmethod
    def make(cls, parent: Parent, name: str) -> Group:
        """A new group beneath the parent."""
        os.mkdir(name, dir_fd=parent.folder)
        names = _V1 if parent.version == 1 else _V2
        folder = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=parent.folder)
        try:
            swap = None
            with contextlib.suppress(OSError):  # kernels without swap accounting have no such file
                swap = os.open(names["swap"], os.O_WRONLY | os.O_CLOEXEC, dir_fd=folder)
            entrance = os.open("cgroup.procs", os.O_WRONLY | os.O_CLOEXEC, dir_fd=folder)
            limit = os.open(names["limit"], os.O_WRONLY | os.O_CLOEXEC, dir_fd=folder)
            events = os.open(names["events"], os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
        finally:
            os.close(folder)
        return cls(parent.version, entrance, limit, swap, events)

    def limit(self, memory_mb: int) -> None:
        """Let all processes inside use `memory_mb` together, and no swap."""
        if memory_mb == self.limited_mb:
            return
        size = str(memory_mb << 20).encode()
        swap = size if self.version == 1 else b"0"  # in version 1 it is the limit of memory and swap together
        if self.version == 1 and self.swap_file:
            os.pwrite(self.swap_file, b"-1", 0)  # it must never be below the other
        os.pwrite(self.limit_file, size, 0)
        if self.swap_file:
            os.pwrite(self.swap_file, swap, 0)
        self.limited_mb = memory_mb

    def kills(self) -> int:
        """How many processes were killed here for memory so far."""
        found = re.search(rb"^oom_kill (\d+)", os.pread(self.events_file, 4096, 0), re.MULTILINE)
        return int(found.group(1)) if found else 0


@dataclass(frozen=True, slots=True)
class Parent:
    """The folder that holds one zygote's groups."""

    path: Path
    folder: int
    version: int

    @classmethod
    def make(cls, root: Path = Path("/sys/fs/cgroup"), memberships: Path = Path("/proc/self/cgroup")) -> Parent | None:
        """The first place where a group with a memory limit can be made, or None."""
        for version, beneath in _candidates(root, memberships):
            path = beneath / f"{MARK}{os.getpid()}"
            try:
                _sweep(beneath)
                path.mkdir()
            except OSError:
                continue
            try:
                if version == 2:
                    _turn_on_memory(path)
                if (path / (_V1 if version == 1 else _V2)["limit"]).exists():
                    return cls(path, os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC), version)
            except OSError:
                pass
            path.rmdir()
        return None

    def remove(self) -> None:
        """Remove the folder with its groups; nothing may run in them any more."""
        _remove(self.path)
        os.close(self.folder)


def _candidates(root: Path, memberships: Path) -> list[tuple[int, Path]]:
    """(version, folder) beneath which a group may be made: our own, then, in version 2, the one above it."""
    found = []
    try:
        lines = memberships.read_text().splitlines()
    except OSError:
        return []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            found.append((1, root / "memory" / path.lstrip("/")))
        elif not controllers and (root / "cgroup.controllers").exists():
            own = root / path.lstrip("/")
            found += [(2, own), (2, own.parent)] if own != root else [(2, own)]
    return found


def _turn_on_memory(path: Path) -> None:
    descriptor = os.open(path / "cgroup.subtree_control", os.O_WRONLY)
    try:
        os.write(descriptor, b"+memory")
    finally:
        os.close(descriptor)


def _sweep(beneath: Path) -> None:
    """Remove what a host left that was killed together with its launcher."""
    for path in beneath.glob(f"{MARK}*"):
        pid = path.name.removeprefix(MARK)
        if pid.isdigit() and not Path("/proc", pid).exists():
            _remove(path)


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        for group in path.iterdir():
            if group.is_dir():
                with contextlib.suppress(OSError):
                    group.rmdir()
        path.rmdir()
