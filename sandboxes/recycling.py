"""When a place that is used again and again has served enough."""

from __future__ import annotations

MOST_CALLS = 2000  # then a place is replaced, whatever it looks like
RESTED_S = 20.0  # a place that was not used for longer is asked how it is before it is used
ASKED_S = 2.0  # for its answer
MOST_GROWN = 64 << 20  # bytes that the process which keeps a place may grow by


def is_worn(calls: int) -> bool:
    """Whether a place that has served so many calls is to be replaced."""
    return calls >= MOST_CALLS


def is_sound(others: int, grown: int) -> bool:
    """Whether a place is as it was: no process is left in it, and its keeper holds nothing on to."""
    return others == 0 and grown < MOST_GROWN
