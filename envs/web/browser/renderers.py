"""The renderers of a browser and their memory, as the kernel tells of them: the browser need not be asked."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def zygotes(browser: int) -> list[int]:
    """Return the processes that a browser's renderers are forked from; none where the kernel does not say."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    family = [browser]
    for pid in family:
        family += [child for child, parent in parents.items() if parent == pid]
    forkers = [pid for pid in family if _has_type(pid, b"zygote")]
    return forkers if all(_children_file(pid).exists() for pid in forkers) else []


def renderers_above(limit: int, forkers: list[int]) -> list[int]:
    """Return the renderers among the children of these processes that hold more than `limit` bytes of memory."""
    children: list[int] = []
    for pid in forkers:
        with contextlib.suppress(OSError):
            children += map(int, _children_file(pid).read_text().split())
    return [pid for pid in children if resident_bytes(pid) > limit and _has_type(pid, b"renderer")]


def resident_bytes(pid: int) -> int:
    """Return the memory that a process holds; 0 if it has ended."""
    try:
        with open(f"/proc/{pid}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError):
        return 0


def _children_file(pid: int) -> Path:
    return Path(f"/proc/{pid}/task/{pid}/children")


def _has_type(pid: int, kind: bytes) -> bool:
    with contextlib.suppress(OSError):
        return b"--type=" + kind in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False
