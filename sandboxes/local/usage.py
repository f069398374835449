"""What the processes of a place use together, read from `/proc`."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable
from typing import NamedTuple

_TICK = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_OWN = re.compile(r"^Pss_(?:Anon|Shmem): +(\d+) kB", re.MULTILINE)


class Usage(NamedTuple):
    """CPU seconds, those of ended children included, and resident bytes, what processes share counted for each."""

    cpu_s: float
    resident: int


def size() -> int:
    """Bytes of this process's address space."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * _PAGE


def resident() -> int:
    """Bytes of this process that are in memory."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * _PAGE


def processes() -> list[int]:
    """Every process of this pid namespace but its first one and this."""
    own = ("1", str(os.getpid()))
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and name not in own]


def usage(pids: Iterable[int]) -> Usage:
    """What they use; a process that just ended counts as nothing."""
    ticks = pages = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/stat") as file:
                fields = file.read().rpartition(")")[2].split()
        except OSError:
            continue
        ticks += sum(map(int, fields[11:15]))  # utime, stime, cutime, cstime
        pages += int(fields[21])
    return Usage(ticks / _TICK, pages * _PAGE)


def memory(pids: Iterable[int], enough: int) -> int:
    """Bytes of their own memory, a shared page divided among its sharers; counted up to `enough`.

    Far slower than `usage`. Where it takes more than a tenth of a second it is an underestimate: deadlines go first.
    """
    total, until = 0, time.monotonic() + 0.1
    for pid in pids:
        try:
            with open(f"/proc/{pid}/smaps_rollup") as file:
                total += sum(map(int, _OWN.findall(file.read()))) << 10
        except OSError:
            continue
        if total > enough or time.monotonic() > until:
            break
    return total
