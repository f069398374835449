"""Find which one of several words or commands a reply names. Reads text only, in time linear in its length."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TypeVar

from envs.grading.lines import last_line

T = TypeVar("T")


def find_choice(reply: str, meanings: Mapping[str, T]) -> T | None:
    """Return the one meaning that the last line of `reply` names, in lower case or capitals.

    None if the line names no choice, or choices of several meanings, so that listing all of them never pays. A name
    inside a longer name (`go` in `go east`) or inside another word does not count.

    Args:
        reply: Text of the reply.
        meanings: Meaning of each name; names in lower case.
    """
    meaning = meanings.get(reply)  # fast path: the reply is a name and nothing else
    if meaning is not None:
        return meaning
    matches = {meanings[name] for name in _pattern(tuple(meanings)).findall(last_line(reply).lower())}
    return matches.pop() if len(matches) == 1 else None


def same_words(prediction: str, references: Sequence[str]) -> bool:
    """Whether one of `references` is the same text but for case, punctuation and spaces."""
    return any(_split_words(prediction) == _split_words(text) for text in references)


@lru_cache(maxsize=256)
def _pattern(names: tuple[str, ...]) -> re.Pattern[str]:
    longest_first = sorted(names, key=len, reverse=True)
    return re.compile(rf"(?<![\w'’])(?:{'|'.join(map(re.escape, longest_first))})(?![\w'’])")


def _split_words(text: str) -> list[str]:
    return re.sub(r"[^\w\s]|_", " ", text.lower()).split()
