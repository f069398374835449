"""CPU time and memory of processes, read from `/proc`, and what limits memory."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable
from typing import NamedTuple, Protocol

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_PSS = re.compile(rb"^Pss_(?:Anon|Shmem): +(\d+) kB", re.MULTILINE)


class Usage(NamedTuple):
    """CPU seconds, including those of ended children, and resident bytes, where shared pages count for each process."""

    cpu_s: float
    resident: int


class MemoryGroup(Protocol):
    """Limits the memory of all processes of a place, one warden's process tree, together."""

    def limit(self, memory_mb: int) -> None:
        """Set the limit in MiB."""

    def oom_kills(self) -> int:
        """How many processes were killed for exceeding it so far."""


def address_space() -> int:
    """Return the size of this process's address space in bytes."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * _PAGE_BYTES


def resident() -> int:
    """Return how many bytes of this process are in memory, shared pages included."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * _PAGE_BYTES


def other_processes() -> list[int]:
    """Return the pids of all processes of this pid namespace except its first one and this one."""
    own = ("1", str(os.getpid()))
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and name not in own]


def usage(pids: Iterable[int]) -> Usage:
    """Return CPU seconds and resident bytes, summed over these processes; one that has ended counts as nothing."""
    ticks = pages = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:  # a program may give itself a name that is no text
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            continue
        ticks += sum(map(int, fields[11:15]))  # utime, stime, cutime, cstime
        pages += int(fields[21])
    return Usage(ticks / _TICKS_PER_S, pages * _PAGE_BYTES)


def memory(pids: Iterable[int], enough: int) -> int:
    """Return the bytes of memory of these processes, each shared page divided among its sharers.

    Counting stops above `enough` bytes. Far slower than `usage`. After a tenth of a second it stops with an
    underestimate, as deadlines are more important.
    """
    total, deadline = 0, time.monotonic() + 0.1
    for pid in pids:
        try:
            with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
                total += sum(map(int, _PSS.findall(file.read()))) << 10
        except OSError:
            continue
        if total > enough or time.monotonic() > deadline:
            break
    return total
