"""Whether an answer that ends an episode on a site is the one that is asked for; all sites judge by it."""

from __future__ import annotations

import re

from envs.grading.decoration import undecorated
from envs.grading.doubts import leads_into_doubt
from envs.grading.number import parse_number

_NUMBER = re.compile(r"[$€£]?(?:0|[1-9][0-9]*|[1-9][0-9]{0,2}(?:,[0-9]{3})+)(?:\.[0-9]+)?")  # no code such as 0123
_STATES = re.compile(
    r"\s+(?:is|are|was|were|costs?|equals)\s+|\s*[:=]\s+"
)  # what stands before the value of a sentence
_OTHERS = re.compile(r"[,;\n]|\bor\b|[.!?]\s")  # in front of the value, where a list could stand, or another sentence


def is_right(answer: str, gold: str) -> bool:
    """Whether `answer` is `gold`, perhaps decorated, in other case, in another notation, or in a sentence.

    Of a sentence, such as "The price is $12.50.", the value behind its only verb counts, and only if the words before
    it deny nothing, list nothing and state nothing else. So a list of candidates and a doubt are wrong.
    """
    plain, plain_gold = _plain(answer), _plain(gold)
    if _is_value(plain, plain_gold):
        return True
    states = _STATES.search(plain)
    if states is None:
        return False
    subject, value = plain[: states.start()], plain[states.end() :]
    is_list = _OTHERS.search(subject) is not None
    return not is_list and not leads_into_doubt(plain[: states.end()]) and _is_value(_plain(value), plain_gold)


def _is_value(plain: str, gold: str) -> bool:
    if plain == gold:
        return True
    return _NUMBER.fullmatch(gold) is not None and parse_number(plain) == parse_number(gold)


def _plain(text: str) -> str:
    return " ".join(undecorated(text).casefold().split()).rstrip(".")
