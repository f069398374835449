"""Moves the heap to huge pages, which makes forks cheaper."""

from __future__ import annotations

from sandboxes.local.confinement import syscalls

_HUGE_PAGE = 2 << 20


def collapse_heap() -> None:
    """Put this process's heap on huge pages, so a fork copies one entry for each 512 pages. Best effort (Linux 6.1)."""
    with open("/proc/self/maps") as maps:
        lines = maps.read().splitlines()
    for line in lines:
        fields = line.split()
        if not fields[1].startswith("rw") or (len(fields) > 5 and fields[5] != "[heap]"):
            continue
        start, end = (int(address, 16) for address in fields[0].split("-"))
        for address in range(-(-start // _HUGE_PAGE) * _HUGE_PAGE, end - _HUGE_PAGE + 1, _HUGE_PAGE):
            syscalls.advise(address, _HUGE_PAGE, syscalls.COLLAPSE)
