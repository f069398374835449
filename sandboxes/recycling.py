"""When a place, a process tree that is reused for many calls, is checked or replaced."""

from __future__ import annotations

MAX_CALLS = 2000  # after which a place is replaced in any case
RECHECK_AFTER_S = 20.0  # a place that was idle for longer must answer a health check before it is used
HEALTH_TIMEOUT_S = 2.0  # for the answer to a health check
MAX_GROWTH = 64 << 20  # bytes by which the process that manages a place may grow


def is_used_up(calls: int) -> bool:
    """Whether a place (a process tree that runs programs) that has served `calls` calls must be replaced."""
    return calls >= MAX_CALLS


def is_clean(other_processes: int, growth: int) -> bool:
    """Whether a place (a process tree that runs programs) may be used again after a call.

    `other_processes` is how many processes the call has left there, and must be 0. `growth` is how many bytes larger
    the process that manages the place is than at its start, and must be below `MAX_GROWTH`.
    """
    return other_processes == 0 and growth < MAX_GROWTH
