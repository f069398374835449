"""Which moves of a PettingZoo game are legal, and which of them a reply names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from envs.grading.choice import find_choice, plain_answer
from envs.grading.lines import last_line

NUMBER_ANSWER = re.compile(r"(?:[a-z]+ )*(\d+)")


def legal_numbers(mask: Any, count: int, seat: str) -> list[int]:
    """Return the numbers of the legal actions of `seat`, which has `count` actions; `mask` is None where all are legal.

    Raises RuntimeError, an infrastructure fault, for a mask of another size and for one that allows no action.
    """
    if mask is None:
        return list(range(count))
    if np.size(mask) != count:
        raise RuntimeError(f"{seat}: action_mask has {np.size(mask)} entries, its action space {count} actions")
    numbers = [int(place) for place in np.flatnonzero(mask)]
    if not numbers:
        raise RuntimeError(f"{seat}: action_mask allows none of {count} actions, but the game goes on")
    return numbers


def read_move(reply: str, legal: Mapping[str, int]) -> int | None:
    """Return the number of the legal move that the last line of a reply names, None for none or several.

    Where names are numbers, the line must end with one and hold no other, as in "4", "Column 4." and "I play 4".
    """
    if not all(name.isdecimal() for name in legal):
        return find_choice(reply, legal)
    match = NUMBER_ANSWER.fullmatch(plain_answer(last_line(reply)).lower())
    return legal.get(match[1]) if match else None
