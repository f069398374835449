"""Which one of several words or commands a reply names. Text only, and linear in the reply's length."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import TypeVar

TAIL = 1000  # characters in which the last line is looked for

T = TypeVar("T")


def named(reply: str, meanings: Mapping[str, T]) -> T | None:
    """The meaning of the words in `meanings`, lower-case keys, that the last line of `reply` names.

    None where that line names no word, or words of several meanings: so listing all of them never earns. A name inside
    a longer one (`go` in `go east`) does not count, nor does one inside another word.
    """
    known = meanings.get(reply)  # what a policy that knows the game says
    if known is not None:
        return known
    found = {meanings[name] for name in _pattern(tuple(meanings)).findall(last_line(reply).lower())}
    return found.pop() if len(found) == 1 else None


def last_line(reply: str) -> str:
    """The last line of `reply` that is neither blank nor the fence of a block of code (all backticks), or ""."""
    if "\n" not in reply and len(reply) < TAIL:
        return reply.strip()
    lines = (line.strip() for line in reversed(reply[-TAIL:].splitlines()))
    return next((line for line in lines if line.strip("`")), "")


@lru_cache(maxsize=256)
def _pattern(names: tuple[str, ...]) -> re.Pattern[str]:
    longest_first = sorted(names, key=len, reverse=True)
    return re.compile(rf"(?<![\w'’])(?:{'|'.join(map(re.escape, longest_first))})(?![\w'’])")
