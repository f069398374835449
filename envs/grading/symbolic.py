r"""Equality of two LaTeX answers by math-verify (extra `math`), in a killable worker process.

Stricter than math-verify alone, whose leniency would let wrong answers pass:
- both texts are wrapped in one `\boxed{}` and read as LaTeX only; no Python expression is parsed, nothing is evaluated;
- decimals must agree to 12 places, not 6: 1.414214 is not \sqrt{2};
- where the answer is a plain number, only digits, operators and a few functions are sent: no text, lists or equations;
- nothing is sent that math-verify reads as something else: dots that leave things out, digits with a base, ratios and
  times of day, angles and triangles by their corners, words, degrees where the other side has none.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from itertools import accumulate

from envs.grading.workers import Workers

MAX_TEXT = 300
MAX_DEPTH = 10  # of brackets; the time to parse grows exponentially with it
PLACES = 12
_COMMAND = re.compile(r"\\[A-Za-z]+")
_FUNCTIONS = r"\frac \dfrac \tfrac \cfrac \sqrt \cdot \times \div \left \right \binom \ln \log \pi"
_NUMERIC_COMMANDS = frozenset(_FUNCTIONS.split())
_HUGE_POWER = re.compile(r"\^\s*\{?\s*[+-]?(?:[0-9]{5}|[0-9]+\s*\^)")  # 9^99999 and 9^{9^9}
_MISREAD = re.compile(
    r"\\(?:[lc]?dots[a-z]?|angle|triangle)(?![A-Za-z])|\.\.|:|[0-9)}\]]\s*_"
    r"|\\(?:text|textrm|mbox|mathrm)\s*\{(?!\s*(?:and|or)\s*\})"
)
_DEGREES = re.compile(r"\^\s*\{?\s*\\circ")
_NUMERIC = re.compile(r"[0-9+\-*/^(){}\[\].!_ ]*")


class MissingExtra(ImportError):
    """Grading this reply needs a package that is not installed."""


def is_formula(text: str, *, numeric: bool) -> bool:
    """Whether `text` may be sent to math-verify; `numeric` where the right answer is a plain number."""
    if len(text) > MAX_TEXT or not (text.isascii() and text.isprintable()) or re.search(r"[\"#;`]|__", text):
        return False
    if _HUGE_POWER.search(text):
        return False
    depths = accumulate((char in "([{") - (char in ")]}") for char in text)
    if max(depths, default=0) > MAX_DEPTH:
        return False
    if not numeric:
        return True
    if not set(_COMMAND.findall(text)) <= _NUMERIC_COMMANDS:
        return False
    return bool(re.search("[0-9]", text)) and _NUMERIC.fullmatch(_COMMAND.sub(" ", text)) is not None


def is_misread(gold: str, given: str) -> bool:
    """Whether one of them has a form that math-verify takes for another."""
    one_sided = bool(_DEGREES.search(gold)) != bool(_DEGREES.search(given))
    return one_sided or any(map(_MISREAD.search, (gold, given)))


def equal(gold: str, given: str, *, deadline_s: float) -> bool | None:
    """Whether math-verify finds both texts equal; None where it cannot read the gold answer.

    Raises MissingExtra without math-verify, OverLimit where `given` takes too long or too much memory.
    """
    if not find_spec("math_verify"):
        raise MissingExtra(f"grading {given!r} needs math-verify: pip install 'turnwise[math]'")
    return workers().call(gold, given, deadline_s=deadline_s)


def workers() -> Workers:
    """The process's own pool. Whoever uses it for a while calls `open` and `close`."""
    return _pool()


@cache
def _pool() -> Workers:
    return Workers("envs.grading.symbolic:load", size=max(1, (os.cpu_count() or 1) // 4))


def load() -> Callable[[str, str], bool | None]:
    """Import math-verify and return the comparison; runs in the worker."""
    from math_verify import LatexExtractionConfig, parse, verify

    form = [LatexExtractionConfig(boxed_match_priority=0)]

    def read(text: str) -> list:
        return parse(f"\\boxed{{{text}}}", form, parsing_timeout=None, fallback_mode="no_fallback")

    def compare(gold: str, given: str) -> bool | None:
        wanted = read(gold)
        if not wanted:
            return None
        return bool(verify(wanted, read(given), float_rounding=PLACES, timeout_seconds=None))

    return compare
