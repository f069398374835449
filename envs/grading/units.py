"""Convert units beside a number: for a question about minutes, `3 hours` is 180 and `180 hours` is not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction

# names: (dimension, size in the smallest unit listed)
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
_REACH = 60  # characters read on either side of a number
_FORMULA_END = re.compile(r"[^$\n]*\$(?![0-9])")  # $5$ is a formula


def conversion_factor(reply: str, answer: str, unit: str) -> Fraction | None:
    """Return the factor that converts a number from the unit that the reply writes beside it to `unit`.

    For "3 hours" and the unit "minutes" it is 60. Units beside a number are the word after it, else the word before `:`
    or `=`, and a currency sign, at each place where the reply has the number. 1 if none of them, or `unit` itself, is
    in `UNITS`; None if the units beside it differ from each other, or measure something else than `unit`.

    Args:
        reply: The whole reply.
        answer: The declared answer, as it stands in the reply.
        unit: The unit that the question asks for, in lower case.
    """
    sizes = {UNITS[name] for name in _units_beside(reply, answer) if name in UNITS}
    if unit not in UNITS or not sizes:
        return Fraction(1)
    (dimension, size), *others = sizes
    return Fraction(size, UNITS[unit][1]) if dimension == UNITS[unit][0] and not others else None


def _units_beside(reply: str, answer: str) -> Iterator[str]:
    """Words that may be units of the number in `answer`, in lower case."""
    digits = re.search(r"[0-9](?:.*[0-9])?", answer)
    if not digits:
        return
    for match in re.finditer(rf"(?<![0-9])(?<![0-9][.,/]){re.escape(digits[0])}(?![0-9]|[.,/][0-9])", reply):
        before = reply[max(0, match.start() - _REACH) : match.start()]
        after = reply[match.end() : match.end() + _REACH]
        if (sign := _CURRENCY.search(before)) and not (sign[1] == "$" and _FORMULA_END.match(after)):
            yield sign[1][-1]
        word_after = _AFTER.match(after)
        if word_after and word_after[1].lower() in UNITS:
            yield word_after[1].lower()
        elif word_before := _BEFORE.search(before):
            yield word_before[1].lower()
