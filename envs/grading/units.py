"""Units behind a number: `3 hours` is 180 where minutes are asked for, and `180 hours` is not."""

from __future__ import annotations

import re
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
    "dollar": ("money", 100),
}
UNITS = {name + plural: size for names, size in _SIZES.items() for name in names.split() for plural in ("", "s")}
_WORD = re.compile(r"[0-9.]\s*(?:\\[a-z]+\s*\{)?\s*([A-Za-z]+)(?![A-Za-z]|/|\s*\^|\s+per\b)")


def factor(reply: str, extracted: str, asked: str) -> Fraction | None:
    """By what to multiply the number `extracted` from `reply` to have it in the unit `asked`; None for no such unit.

    The word right after the number decides; 1 where it is no unit known here.
    """
    at = reply.rfind(extracted)
    match = _WORD.search(reply, at, at + len(extracted) + 30) if at >= 0 else None
    found = UNITS.get(match[1].lower()) if match else None
    if found is None or asked not in UNITS:
        return Fraction(1)
    kind, size = UNITS[asked]
    return Fraction(found[1], size) if found[0] == kind else None
