"""Base class of games that are won or not, a check of integer arguments, and a parser of directions."""

from __future__ import annotations

import re

from envs.env import Env
from envs.grading.choice import choice_line, find_choices, listed_choices, plain_answer
from envs.types import Messages, Outcome, system, user

DIRECTIONS = {"left": "l", "down": "d", "right": "r", "up": "u"}
_LETTER_OF = DIRECTIONS | {letter: letter for letter in DIRECTIONS.values()}
_INITIALS = {name[0]: name for name in DIRECTIONS}
COMPASS = {"up": "north", "right": "east", "down": "south", "left": "west"}
_COMPASS_INITIALS = {way[0]: way for way in COMPASS.values()}
ARROWS = {"↑": "up", "→": "right", "↓": "down", "←": "left"}
_WORD = re.compile(r"[a-z]+")
_ARROW_WORDS = str.maketrans({sign: f" {name} " for sign, name in ARROWS.items()})
_MOVE_LETTERS = re.compile(r"[ldru]+")


# Other names of the four directions where the words of the screen count, and where those of the compass count. Up is
# north on all our maps.
SCREEN_SYNONYMS = {**{way: name for name, way in COMPASS.items()}, **ARROWS, **_INITIALS}
COMPASS_SYNONYMS = {**COMPASS, **{sign: COMPASS[name] for sign, name in ARROWS.items()}, **_COMPASS_INITIALS}


class Game(Env):
    """A game that pays 1 for a win and else 0, under the name `win` in `info["rewards"]`.

    A subclass defines `rules`, `opening`, `reply` (which returns `self.outcome(...)`) and the methods that `Env`
    requires: `tasks` and `oracle`.

    Args:
        **limits: Arguments of `Env`: `style`, `max_turns`, `max_seconds`, `render_mode`.
    """

    @property
    def rules(self) -> str:
        """Rules of the game as a system message, in style "v1" only. A subclass must define it."""
        raise NotImplementedError(f"{type(self).__name__} must define rules")

    def opening(self) -> str:
        """Set up the board of `self.task` and return its text. A subclass must define it."""
        raise NotImplementedError(f"{type(self).__name__} must define opening()")

    def start(self) -> Messages:
        """Return the opening board as a user message, in style "v1" after the rules as a system message."""
        prompt = user(self.opening())
        return (system(self.rules), prompt) if self.style == "v1" else (prompt,)

    def outcome(
        self, observation: str, *, is_won: bool = False, is_lost: bool = False, valid: bool = True, **metrics: float
    ) -> Outcome:
        """Return the outcome of a turn: reward 1 for a win, else 0.

        Args:
            observation: Text of the user message that follows. Where the turn ends the game, it is sent in full style
                only, if it is not empty.
            is_won: Whether the turn wins, and so ends, the game.
            is_lost: Whether the turn loses, and so ends, the game.
            valid: Whether the reply was a move that the game could play.
            **metrics: Values for `info["metrics"]`.
        """
        reward = float(is_won)
        is_over = is_won or is_lost
        is_silent = is_over and (self.style != "full" or not observation)
        return Outcome(
            messages=() if is_silent else (user(observation),),
            reward=reward,
            terminated=is_over,
            success=is_won,
            valid=valid,
            rewards={"win": reward},
            metrics=metrics,
        )


def check_range(name: str, value: int, allowed: range, *, why: str = "") -> int:
    """Return `value` as an int.

    Raises ValueError for a bool and for a value outside `allowed`; the message quotes `name`, the range and `why`.
    """
    if isinstance(value, bool) or value not in allowed:
        raise ValueError(f"{name} {value!r} is outside {allowed[0]}..{allowed[-1]}{why and f', {why}'}")
    return int(value)


def parse_directions(reply: str) -> str | None:
    """Parse the moves that the last line of `reply` names into letters of `ldru`; None if they are unclear.

    A line that consists of moves, after words that announce an answer, means all of them in order: `right`, `r`, `rrd`,
    `right, right, down`, "I go right". A line with other words must name exactly one direction, as a full word, once or
    repeatedly: "right is free, so I go right" is a move, `right or down` and `not r` are not. A line of arrows, also
    behind words that announce them, is read as their directions. Moves may also be items of a list at the end of the
    reply (`listed_choices`).
    """
    if reply in _LETTER_OF:
        return _LETTER_OF[reply]
    if choices := listed_choices(reply, DIRECTIONS):
        return "".join(choices)
    line = choice_line(reply)
    if not any(map(str.isalnum, plain_answer(line))):
        line = line.translate(_ARROW_WORDS)
    for text in (line, plain_answer(line)):
        words = _WORD.findall(text.lower())
        moves = [DIRECTIONS.get(word) or (word if _MOVE_LETTERS.fullmatch(word) else "") for word in words]
        if words and all(moves):
            return "".join(moves)
    choices = find_choices(line, DIRECTIONS)
    return "".join(choices) if choices else None
