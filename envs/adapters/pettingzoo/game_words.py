"""The texts that put a PettingZoo game into words for a language model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class GameWords:
    """Texts and functions that put a game into words.

    Attributes:
        goal: What a player has to do, in sentences.
        legend: How to read an observation, in sentences.
        actions: Names of the actions, in the order of the space, in lower case.
        moves: Returns the names of the legal actions with their numbers instead, where these depend on the position.
            Its arguments are the game without wrappers, the seat, and the numbers of the legal actions.
        describe: Writes the observation of a seat; its arguments are the game without wrappers, the seat, and the
            array of the observation.
        teammates: Whether all seats win and lose together.
        target: A seat succeeds if its return is above this.
        max_turns: Replies that a seat may give.
    """

    goal: str = ""
    legend: str = ""
    actions: tuple[str, ...] = ()
    moves: Callable[[Any, str, list[int]], Mapping[str, int]] | None = None
    describe: Callable[[Any, str, Any], str] | None = None
    teammates: bool = False
    target: float = 0.0
    max_turns: int = 100
