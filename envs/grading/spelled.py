"""Parse numbers in other notations than digits: in words, with a word of scale, as vulgar fractions and powers.

`eighteen`, `one hundred and five`, `two thirds`, `1.5 million`, `2½`, `10^6`, `2^{-1}`. Nothing else is read, and every
parse says where the number ends, so that words after it can be checked.
"""

from __future__ import annotations

import re
import unicodedata
from fractions import Fraction
from typing import NamedTuple

MAX_BITS = 700  # of a power: as many as `envs.grading.number.MAX_DIGITS` digits have, and a few more
_SMALL = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
)
_UNDER_TWENTY = {word: number for number, word in enumerate(_SMALL.split())}
_TENS_WORDS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_TENS = {word: 10 * number for number, word in enumerate(_TENS_WORDS, start=2)}
_SCALES = {"thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_PARTS = {
    "half": 2, "halves": 2, "third": 3, "thirds": 3, "quarter": 4, "quarters": 4, "fourth": 4, "fourths": 4, "fifth": 5,
    "fifths": 5, "sixth": 6, "sixths": 6, "seventh": 7, "sevenths": 7, "eighth": 8, "eighths": 8, "ninth": 9,
    "ninths": 9, "tenth": 10, "tenths": 10,
}  # fmt: skip
_WORD = re.compile(r"[\s-]*([a-z]+)")
_HINT = re.compile(
    rf"[\u00bc-\u00be\u2150-\u215e^]|\b(?:{'|'.join([*_UNDER_TWENTY, *_TENS, *_SCALES, 'a'])}|hundred)", re.IGNORECASE
)
_VULGAR = re.compile(r"(?P<whole>[0-9]{0,18})\s?(?P<part>[\u00bc-\u00be\u2150-\u215e])")
_SCALED = re.compile(
    r"(?P<number>[0-9]{1,3}(?:,[0-9]{3})*(?:\.[0-9]{1,18})?|[0-9]{1,18}(?:\.[0-9]{1,18})?)"
    r"\s+(?P<scale>hundred|thousand|million|billion|trillion)s?\b",
    re.IGNORECASE,
)
_POWER = re.compile(
    r"(?P<base>[0-9]{1,6})\s?\^\s?(?:(?P<plain>[0-9]{1,3})|\{\s?(?P<braced>[+-]?[0-9]{1,3})\s?\})(?![\^0-9])"
)
_AND_A_HALF = re.compile(r"(?P<whole>[0-9]{1,18})\s+and\s+(?:a|one)\s+half\b", re.IGNORECASE)


class Spelled(NamedTuple):
    """A number at the beginning of a text, and the index at which it ends."""

    value: Fraction
    end: int


def parse_spelled(text: str) -> Spelled | None:
    """Parse the number at the beginning of `text`, which may not have a sign; None if there is none."""
    if not _HINT.search(text):
        return None
    if match := _POWER.match(text):
        base, exponent = int(match["base"]), int(match["plain"] or match["braced"])
        if not base or base.bit_length() * abs(exponent) > MAX_BITS:
            return None
        return Spelled(Fraction(base) ** exponent, match.end())
    if match := _VULGAR.match(text):
        part = Fraction(unicodedata.numeric(match["part"])).limit_denominator(10)
        return Spelled(part + int(match["whole"] or 0), match.end())
    if match := _SCALED.match(text):
        scale = 100 if match["scale"].lower() == "hundred" else _SCALES[match["scale"].lower()]
        return Spelled(Fraction(match["number"].replace(",", "")) * scale, match.end())
    if match := _AND_A_HALF.match(text):
        return Spelled(int(match["whole"]) + Fraction(1, 2), match.end())
    return _parse_words(text[:200].lower())


def _parse_words(text: str) -> Spelled | None:
    """Parse a number in words, perhaps with a fraction: "two thirds", "one and a half", "a quarter"."""
    words, ends, position = [], [0], 0
    while match := _WORD.match(text, position):
        words.append(match[1])
        position = match.end()
        ends.append(position)
    if len(words) > 1 and words[0] == "a" and words[1] in ("half", "third", "quarter"):
        return Spelled(Fraction(1, _PARTS[words[1]]), ends[2])
    whole, used = _parse_whole(words)
    if not used:
        return None
    rest = words[used:]
    if rest[:1] and rest[0] in _PARTS:
        return Spelled(Fraction(whole, _PARTS[rest[0]]), ends[used + 1])
    if len(rest) > 2 and rest[0] == "and":
        top, more = (1, 1) if rest[1] == "a" else _parse_whole(rest[1:])
        if more and 1 + more < len(rest) and rest[1 + more] in _PARTS:
            return Spelled(whole + Fraction(top, _PARTS[rest[1 + more]]), ends[used + 2 + more])
    return Spelled(Fraction(whole), ends[used])


def _parse_whole(words: list[str]) -> tuple[int, int]:
    """The whole number at the beginning of some words, and how many of them it has; 0 of them if there is none."""
    total = position = 0
    limit = 10**15
    while True:
        value, used = _parse_group(words[position + (position > 0 and words[position : position + 1] == ["and"]) :])
        if not used:
            return total, position
        used += position > 0 and words[position] == "and"
        scale = _SCALES.get(words[position + used], 1) if position + used < len(words) else 1
        if scale >= limit:
            return total, position
        total, position, limit = total + value * scale, position + used + (scale > 1), scale
        if scale == 1:
            return total, position


def _parse_group(words: list[str]) -> tuple[int, int]:
    """The number below 1000 at the beginning of some words, and how many of them it has."""
    value, used = _parse_pair(words)
    if used and value < 20 and words[used : used + 1] == ["hundred"]:
        skip = used + 1 + (words[used + 1 : used + 2] == ["and"])
        more, more_used = _parse_pair(words[skip:])
        return (100 * value + more, skip + more_used) if more_used and more else (100 * value, used + 1)
    return value, used


def _parse_pair(words: list[str]) -> tuple[int, int]:
    """The number below 100 at the beginning of some words, and how many of them it has."""
    if not words:
        return 0, 0
    if words[0] in _UNDER_TWENTY:
        return _UNDER_TWENTY[words[0]], 1
    if words[0] not in _TENS:
        return 0, 0
    unit = _UNDER_TWENTY.get(words[1], 10) if len(words) > 1 else 10
    return (_TENS[words[0]] + unit, 2) if 0 < unit < 10 else (_TENS[words[0]], 1)
