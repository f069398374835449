"""Whether an answer that ends an episode on a site is the one that is asked for; all sites judge by it."""

from __future__ import annotations

import re

from envs.grading.decoration import undecorated
from envs.grading.doubts import leads_into_doubt
from envs.grading.number import parse_number

_NUMBER = re.compile(r"([$€£]?)(?:0|[1-9][0-9]*|[1-9][0-9]{0,2}(?:,[0-9]{3})+)(?:\.[0-9]+)?")  # no code such as 0123
_DOLLARS = re.compile(r"\s*(?:us dollars?|dollars?|usd)$")
_COUNTED = re.compile(r"(?<=[0-9])(?: [a-z]+){1,6}$")  # what a number counts: 3 open tickets
_STATES = re.compile(  # what stands before the value of a sentence
    r"(?:\s+(?:is|are|was|were|costs?|equals)|['’]s|\s*[:=][*_]{0,2})\s+"
)
_OTHERS = re.compile(r"[;|\n]|,(?! [0-9]{1,2} [a-z])|\bor\b|[.!?]\s")  # a list or another sentence; no comma of a date
_VALUE_FIRST = re.compile(r"[-+$€£*_]{0,3}[0-9]")


def is_right(answer: str, gold: str) -> bool:
    """Whether `answer` is `gold`, perhaps decorated, in other case, in another notation, or in a sentence.

    Of a sentence, such as "The price is $12.50.", the value behind the last verb or colon counts, and only if the words
    before it deny nothing, list nothing and state no other value. So a list of candidates and a doubt are wrong.
    """
    plain, plain_gold = _plain(answer), _plain(gold)
    if _is_value(plain, plain_gold):
        return True
    statements = [*_STATES.finditer(plain)]
    if not statements or not _is_value(_plain(plain[statements[-1].end() :]), plain_gold):
        return False
    *earlier, last = statements
    subject = plain[: last.start()]
    is_stated = any(_VALUE_FIRST.match(plain, one.end()) for one in earlier)
    return not (is_stated or _OTHERS.search(subject) or leads_into_doubt(plain[: last.end()]))


def _is_value(plain: str, gold: str) -> bool:
    if plain == gold:
        return True
    if gold[:1].isdigit() and " " in gold and plain == gold.replace(" ", ""):
        return True  # a unit without its space
    if (number := _NUMBER.fullmatch(gold)) is None:
        return False
    amount = (_DOLLARS if number[1] else _COUNTED).sub("", plain)
    stated = _NUMBER.fullmatch(amount)
    if not (amount.isalpha() or (stated and stated[1] in ("", number[1]))):  # another currency, a percentage
        return False
    return parse_number(amount) == parse_number(gold)


def _plain(text: str) -> str:
    return " ".join(undecorated(text).casefold().split()).rstrip(".")
