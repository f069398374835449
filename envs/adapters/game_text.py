"""The texts that put a Gymnasium game into words for a language model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import gymnasium

SuccessRule = Literal["reward", "end", "last"]


@dataclass(frozen=True)
class GameText:
    """Texts and functions that put a game into words.

    Attributes:
        goal: What the player has to do, in sentences.
        legend: How to read an observation, in sentences.
        actions: Names of the actions, in the order of the space.
        labels: Names of the numbers of an observation.
        success: Which ends count as success, unless the game itself says so: "reward" for a positive reward in the turn
            that ends the game, "end" for every end before the turn limit, "last" for reaching the turn limit.
        describe: Writes an observation, given the game and the observation.
        state: Returns a text that identifies the state of the game, given the game.
    """

    goal: str = ""
    legend: str = ""
    actions: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    success: SuccessRule = "reward"
    describe: Callable[[gymnasium.Env, Any], str] | None = None
    state: Callable[[gymnasium.Env], str] | None = None
