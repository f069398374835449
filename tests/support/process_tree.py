"""Which processes stand below one. `/proc/PID/task/TID/children` is no help: it may leave out some while others end."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path


def children(pid: int) -> list[int]:
    """Process ids of what a process has started, or has inherited, and has not waited for."""
    return _below(pid, _parents())


def descendants(pid: int) -> list[int]:
    """Process ids of everything below a process, parents first."""
    parents, todo, pids = _parents(), [pid], []
    while todo:
        todo = [child for parent in todo for child in _below(parent, parents)]
        pids += todo
    return pids


def _below(pid: int, parents: dict[int, int]) -> list[int]:
    return [child for child, parent in sorted(parents.items()) if parent == pid]


def _parents() -> dict[int, int]:
    """The parent of every process."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
    return parents
