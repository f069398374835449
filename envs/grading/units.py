"""Units beside a number: `3 hours` is 180 where minutes are asked for, and `180 hours` is not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction

# name: (what it measures, how many of the smallest unit listed)
_SIZES = {
    "mm millimetre millimeter": ("length", 1),
    "cm centimetre centimeter": ("length", 10),
    "m metre meter": ("length", 1_000),
    "km kilometre kilometer": ("length", 1_000_000),
    "s sec second": ("time", 1),
    "min minute": ("time", 60),
    "h hr hour": ("time", 3_600),
    "day": ("time", 86_400),
    "week": ("time", 604_800),
    "g gram": ("mass", 1),
    "kg kilogram": ("mass", 1_000),
    "ml millilitre milliliter": ("volume", 1),
    "cl centilitre centiliter": ("volume", 10),
    "l litre liter": ("volume", 1_000),
    "cent": ("money", 1),
    "dollar $": ("money", 100),
    "month year foot feet ft inche yard yd mile mi ton tonne pound lb ounce oz gallon euro € £ percent %": ("other", 1),
}
UNITS = {name + plural: size for names, size in _SIZES.items() for name in names.split() for plural in ("", "s")}
_DRESS = r"(?:[*_`)\]}$(, ]|\\[,;:! ]|\\[a-z]+\s{0,3}\{|in\b)"
_AFTER = re.compile(rf"{_DRESS}{{0,20}}([A-Za-z]+|%)(?![A-Za-z]|/|\s*\^|\s+per\b)")
_BEFORE = re.compile(r"\b([A-Za-z]{2,})\s{0,3}[:=](?:[*_`$([{ ]|\\[([]|\\[a-z]+\{){0,20}$")
_CURRENCY = re.compile(r"(\\?[$€£]) ?$")
_REACH = 60  # characters on either side of a number
_CLOSED = re.compile(r"[^$\n]*\$(?![0-9])")  # $5$ is a formula


def factor(reply: str, extracted: str, asked: str) -> Fraction | None:
    """By what to multiply the number `extracted` from `reply` to have it in the unit `asked`; None for no such unit.

    What stands right beside the number, wherever the reply has it, decides: the word behind it, else the one before
    `:` or `=`, and a currency sign. None also where these differ; 1 where there is no unit known here.
    """
    sizes = {UNITS[unit] for unit in _beside(reply, extracted) if unit in UNITS}
    if asked not in UNITS or not sizes:
        return Fraction(1)
    (kind, size), *others = sizes
    return Fraction(size, UNITS[asked][1]) if kind == UNITS[asked][0] and not others else None


def _beside(reply: str, extracted: str) -> Iterator[str]:
    """What may be a unit of the number in `extracted`, in lower case."""
    digits = re.search(r"[0-9](?:.*[0-9])?", extracted)
    if not digits:
        return
    for found in re.finditer(rf"(?<![0-9])(?<![0-9][.,/]){re.escape(digits[0])}(?![0-9]|[.,/][0-9])", reply):
        before = reply[max(0, found.start() - _REACH) : found.start()]
        after = reply[found.end() : found.end() + _REACH]
        if (sign := _CURRENCY.search(before)) and not (sign[1] == "$" and _CLOSED.match(after)):
            yield sign[1][-1]
        behind = _AFTER.match(after)
        if behind and behind[1].lower() in UNITS:
            yield behind[1].lower()
        elif named := _BEFORE.search(before):
            yield named[1].lower()
