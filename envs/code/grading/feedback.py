"""Descriptions of calls that do not return the expected value, as they are shown to a policy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

MAX_CHARS = 100  # of an argument or a value


def describe_failure(name: str, args: Sequence[Any], expected: Any, *, value: Any = None, error: str = "") -> str:
    """Describe a wrong call: `f(3) is -4, not 10` or, with an `error`, `f(3) fails, ValueError: x; should be 10`.

    Args:
        name: The name of the function.
        args: The arguments of the call.
        expected: The value that it should return.
        value: The value that it returned; not read with an `error`.
        error: The exception in one line; "" where it raised none.
    """
    call = f"{name}({', '.join(map(format_value, args))})"
    if error:
        return f"{call} fails, {error.rstrip(': ')}; should be {format_value(expected)}"
    return f"{call} is {format_value(value)}, not {format_value(expected)}"


def format_value(value: Any) -> str:
    """Return the `repr` of a value, sets in sorted order, cut after `MAX_CHARS` characters with `...`."""
    sets = isinstance(value, set | frozenset) and value
    try:
        text = f"{{{', '.join(sorted(map(repr, value)))}}}" if sets else repr(value)
    except ValueError:  # Python writes no number of more than 4300 digits
        text = "a value with a number too long to write"
    return text if len(text) <= MAX_CHARS else f"{text[:MAX_CHARS]}..."
