"""Descriptions of calls that do not return the expected value, as they are shown to a policy."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

MAX_CHARS = 100  # of an argument or a value
_WRONG_VALUE = re.compile(r"(.+?\)) is (.+), not (.+)", re.DOTALL)
_EXCEPTION = re.compile(r"(.+?\)) fails, (.+); should be (.+)", re.DOTALL)


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


def in_sentence(failure: str) -> str:
    """Turn a description of `describe_failure` into a sentence: `f(3) returns -4, but should return 10.`.

    Other texts, such as the error of a program that cannot be loaded, are returned with a full stop.
    """
    if match := _WRONG_VALUE.fullmatch(failure):
        return f"{match[1]} returns {match[2]}, but should return {match[3]}."
    if match := _EXCEPTION.fullmatch(failure):
        return f"{match[1]} fails with {match[2]}, but should return {match[3]}."
    return failure if failure.endswith((".", "!")) else f"{failure}."


def format_value(value: Any) -> str:
    """Return the `repr` of a value, sets in sorted order, cut after `MAX_CHARS` characters with `...`."""
    sets = isinstance(value, set | frozenset) and value
    try:
        text = f"{{{', '.join(sorted(map(repr, value)))}}}" if sets else repr(value)
    except ValueError:  # Python writes no number of more than 4300 digits
        text = "a value with a number too long to write"
    return text if len(text) <= MAX_CHARS else f"{text[:MAX_CHARS]}..."
