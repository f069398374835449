"""What is said of a call that does not return what it should."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

MOST = 100  # characters of an argument or a value that are told


def complaint(name: str, given: Sequence[Any], wanted: Any, *, value: Any = None, raised: str = "") -> str:
    """`f(3) is -4, not 10`; or `f(3) fails, ValueError: x; should be 10` where something was raised."""
    call = f"{name}({', '.join(map(told, given))})"
    if raised:
        return f"{call} fails, {raised.rstrip(': ')}; should be {told(wanted)}"
    return f"{call} is {told(value)}, not {told(wanted)}"


def told(value: Any) -> str:
    """A value as Python writes it, sets in order, cut where it is long."""
    sets = isinstance(value, set | frozenset) and value
    try:
        text = f"{{{', '.join(sorted(map(repr, value)))}}}" if sets else repr(value)
    except ValueError:  # Python writes no number of more than 4300 digits
        text = "a value with a number too long to write"
    return text if len(text) <= MOST else f"{text[:MOST]}..."
