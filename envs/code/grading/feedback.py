"""Descriptions of calls that do not return the expected value, as they are shown to a policy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

MAX_CHARS = 100  # of an argument or a value


def describe_failure(name: str, args: Sequence[Any], expected: Any, *, value: Any = None, error: str = "") -> str:
    """`f(3) is -4, not 10` or, with an `error`, `f(3) fails, ValueError: x; should be 10`."""
    call = f"{name}({', '.join(map(format_value, args))})"
    if error:
        return f"{call} fails, {error.rstrip(': ')}; should be {format_value(expected)}"
    return f"{call} is {format_value(value)}, not {format_value(expected)}"


def format_value(value: Any) -> str:
    """The `repr` of a value, sets in sorted order, truncated after `MAX_CHARS` characters."""
    sets = isinstance(value, set | frozenset) and value
    try:
        text = f"{{{', '.join(sorted(map(repr, value)))}}}" if sets else repr(value)
    except ValueError:  # Python writes no number of more than 4300 digits
        text = "a value with a number too long to write"
    return text if len(text) <= MAX_CHARS else f"{text[:MAX_CHARS]}..."
