"""What the games share: rules for those who never played, one way to end, one way to read a reply."""

from __future__ import annotations

import re
from typing import Any

from envs.env import Env
from envs.grading.choice import find_choice, last_line
from envs.types import Messages, Outcome, system, user

DIRECTIONS = {"left": "l", "down": "d", "right": "r", "up": "u"}
_KNOWN = DIRECTIONS | {letter: letter for letter in DIRECTIONS.values()}
_LETTERS = re.compile(r"[a-z]+")
_MOVES = re.compile(r"[ldru]+")


class Game(Env):
    """A game that is won or not: 1 for the win, else 0, as the named part `win`.

    A subclass defines `opening` and `reply`, which returns `self.outcome(...)`. With `explain`, its `rules` open the
    episode as a system message, for models that have never played.
    """

    def __init__(self, *, explain: bool = False, **limits: Any) -> None:
        super().__init__(**limits)
        self.explain = bool(explain)

    @property
    def rules(self) -> str:
        """The rules in a few sentences."""
        raise NotImplementedError(f"{type(self).__name__} must define rules")

    def opening(self) -> str:
        """Set the board up for `self.task` and show it."""
        raise NotImplementedError(f"{type(self).__name__} must define opening()")

    def start(self) -> Messages:
        """Show the board, after the rules if wanted."""
        shown = user(self.opening())
        return (system(self.rules), shown) if self.explain else (shown,)

    def outcome(
        self, shown: str, *, won: bool = False, lost: bool = False, valid: bool = True, **metrics: float
    ) -> Outcome:
        """A turn after which the board is `shown`; `won` or `lost` end the game."""
        paid = float(won)
        return Outcome(
            messages=() if won or lost else (user(shown),),
            reward=paid,
            terminated=won or lost,
            success=won,
            valid=valid,
            rewards={"win": paid},
            metrics=metrics,
        )


def checked(name: str, value: int, allowed: range, *, why: str = "") -> int:
    """`value`, an argument called `name`. Raises ValueError with the range where it is outside."""
    if isinstance(value, bool) or value not in allowed:
        raise ValueError(f"{name} {value!r} is outside {allowed[0]}..{allowed[-1]}{why and f', {why}'}")
    return int(value)


def directions(reply: str) -> str | None:
    """The moves that the last line of `reply` names, as letters of `ldru`; None where that is unclear.

    A line of nothing but moves means all of them: `right`, `r`, `rrd`, `right, right, down`. Between other words one
    direction may stand, written out and as often as it likes: `I go right`, but neither `right or down` nor `not r`.
    """
    if reply in _KNOWN:
        return _KNOWN[reply]
    words = _LETTERS.findall(last_line(reply).lower())
    if not words:
        return None
    moves = [DIRECTIONS.get(word) or (word if _MOVES.fullmatch(word) else "") for word in words]
    if all(moves):
        return "".join(moves)
    return find_choice(reply, DIRECTIONS)
