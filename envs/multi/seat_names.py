"""Names of seats: they stand in flags (`--opponent ann=random`), in names of metrics, and in names of folders."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from gymnasium.error import ResetNeeded

WORDS = r"\w[\w-]*(?: [\w-]+)*"
NAME = re.compile(WORDS)
MAX_LENGTH = 60  # characters: with up to 4 bytes each, a folder can have the name
RESERVED = {"any": "a drawn seat, as in --env-arg seat=any", "each": "every seat, as in --role each"}
ONLY = "agent"  # the seat of an environment that is no game


def check_seats(seats: Any, owner: str) -> list[str]:
    """Return `seats` if they are names of seats: letters, digits, `_` and, not first, `-`, in words with single spaces.

    Args:
        seats: The seats of an environment, in order.
        owner: Name of the environment, with which errors begin.

    Raises:
        ValueError: There is no seat, one has another name than these, or two have the same.
    """
    if isinstance(seats, str) or not isinstance(seats, Sequence) or not seats:
        hint = f"; write ({seats!r:.60},)" if isinstance(seats, str) and seats else ""
        raise ValueError(f"{owner}: seats must be a tuple of names, not {seats!r:.60}{hint}")
    for number, seat in enumerate(seats):
        if not (isinstance(seat, str) and len(seat) <= MAX_LENGTH and NAME.fullmatch(seat)):
            raise ValueError(
                f"{owner}: {seat!r:.80} cannot name a seat; use up to {MAX_LENGTH} letters, digits, _ and -, with "
                "single spaces between words"
            )
        meaning = RESERVED.get(seat, "the only seat of an environment of one agent" * (list(seats) == [ONLY]))
        if meaning:
            raise ValueError(f"{owner}: {seat!r} cannot name this seat, because it means {meaning}; rename it")
        if seat in seats[:number]:
            raise ValueError(f"{owner}: two seats have the name {seat!r}; give each a name of its own")
    return [*seats]


def check_seat(seat: str, known: Mapping[str, Any] | None, owner: str) -> None:
    """Check that a seat is one of a game.

    Args:
        seat: Name that a caller gave.
        known: Something by seat; None before the first episode.
        owner: Name of the environment, with which errors begin.

    Raises:
        ResetNeeded: No episode has begun.
        ValueError: The game has no such seat.
    """
    if known is None:
        raise ResetNeeded(f"{owner}: no episode is running; call reset() first")
    if seat not in known:
        raise ValueError(f"{owner}: no seat {seat!r}; seats are {', '.join(known)}")
