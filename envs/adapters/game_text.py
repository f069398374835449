"""The texts that put a Gymnasium game into words for a language model."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import gymnasium

MAX_GOAL = 600  # characters that are taken from an environment's own description
_DESCRIPTION = re.compile(
    r"^\s*#+\s*Description\s*\n+(.+?)(?=\n\s*\n|\n\s*#|\s*\Z)", re.MULTILINE | re.DOTALL | re.IGNORECASE
)

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


def description(docstring: str) -> str:
    """Return the paragraph "Description" of a docstring, the form of Gymnasium's documentation; "" without one."""
    match = _DESCRIPTION.search(docstring)
    return shorten(match[1]) if match else ""


def shorten(paragraph: str) -> str:
    """Return a paragraph of an environment's own documentation on one line, cut after `MAX_GOAL` characters."""
    return " ".join(paragraph.split())[:MAX_GOAL]
