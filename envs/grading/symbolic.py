r"""Compare two LaTeX answers with math-verify (extra `math`), in a worker process that can be killed.

Stricter than math-verify alone, which accepts some wrong answers:
- both texts are wrapped in `\boxed{}` and parsed as LaTeX only; no Python expression is parsed, nothing is evaluated;
- decimals must agree to 12 places, not 6: 1.414214 is not \sqrt{2};
- if the gold answer is a plain number, only digits, operators and a few functions are sent: no text, list or equation;
- nothing is sent that math-verify misreads: dots for omitted parts, digits with a base, ratios and times of day, angles
  and triangles named by their corners, words, degrees if the other side has none.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from itertools import accumulate

from envs.grading.workers import WorkerPool
from sandboxes.extras import install_command

MAX_TEXT = 300
MAX_DEPTH = 10  # of nested brackets; the parsing time grows exponentially with it
DECIMAL_PLACES = 12
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
    """Grading needs a package that is not installed."""


def is_formula(text: str, *, numeric: bool) -> bool:
    """Whether `text` may be sent to math-verify: short, plain ASCII, without deep nesting or huge powers.

    With `numeric`, the gold answer is a plain number, and `text` may only hold digits, operators and a few functions.
    """
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


def is_misread(gold: str, answer: str) -> bool:
    r"""Whether this pair must not be sent to math-verify, because it would read one of them as something else.

    That is so for dots, `..`, `:`, a subscript behind a digit or a bracket, `\angle`, `\triangle`, text commands other
    than `and` and `or`, and degrees on one side only.
    """
    has_degrees_once = bool(_DEGREES.search(gold)) != bool(_DEGREES.search(answer))
    return has_degrees_once or any(map(_MISREAD.search, (gold, answer)))


def is_equal(gold: str, answer: str, *, deadline_s: float) -> bool | None:
    """Whether math-verify finds both texts equal; None if it cannot parse the gold answer.

    `deadline_s` are seconds of CPU time. Raises MissingExtra without math-verify, OverLimit if the comparison takes too
    much time or memory.
    """
    if not find_spec("math_verify"):
        raise MissingExtra(f"grading {answer!r} needs math-verify: {install_command('math')}")
    return workers().call(gold, answer, deadline_s=deadline_s)


def workers() -> WorkerPool:
    """Return the pool of worker processes that compare answers, one pool per process.

    Call its `open` and `close` around a longer use to keep its workers between calls.
    """
    return _pool()


@cache
def _pool() -> WorkerPool:
    return WorkerPool("envs.grading.symbolic:load_comparison", size=max(1, (os.cpu_count() or 1) // 4))


def load_comparison() -> Callable[[str, str], bool | None]:
    """Import math-verify and return a function `compare(gold, answer)`, which runs in a worker.

    It returns whether both texts are equal, None if the gold answer cannot be parsed.
    """
    from math_verify import LatexExtractionConfig, parse, verify

    config = [LatexExtractionConfig(boxed_match_priority=0)]

    def parse_boxed(text: str) -> list:
        return parse(f"\\boxed{{{text}}}", config, parsing_timeout=None, fallback_mode="no_fallback")

    def compare(gold: str, answer: str) -> bool | None:
        gold_expressions = parse_boxed(gold)
        if not gold_expressions:
            return None
        return bool(verify(gold_expressions, parse_boxed(answer), float_rounding=DECIMAL_PLACES, timeout_seconds=None))

    return compare
