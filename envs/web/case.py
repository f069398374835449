"""A task on a site: the goal, the state that reaches it, a script that does, and scripts that just miss it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np

from envs.web.sites.app import App

T = TypeVar("T")
Act = Literal["click", "type", "select", "press", "back", "switch", "stop", "answer", "impossible"]
IMPOSSIBLE_SHARE = 0.1


class Step(NamedTuple):
    """An action in terms of what the pages show, so that it means the same in every engine.

    Attributes:
        act: What to do.
        name: Name of the element, or of the key for "press"; the place of the tab for "switch".
        text: What to type, the option to select, or the answer.
        within: A text or name in the same table row, to tell elements of one name apart; "" for the first of the name.
    """

    act: Act
    name: str = ""
    text: str = ""
    within: str = ""


def click(name: str, within: str = "") -> Step:
    """Click the element of this name, in the row with `within` if there is one."""
    return Step("click", name, within=within)


def fill(name: str, text: str, within: str = "") -> Step:
    """Type into the field of this name."""
    return Step("type", name, text, within)


def choose(name: str, option: str, within: str = "") -> Step:
    """Choose an option of the select of this name."""
    return Step("select", name, option, within)


STOP = Step("stop")
IMPOSSIBLE = Step("impossible")


def answer(text: str) -> Step:
    """End the episode with an answer."""
    return Step("answer", text=text)


class Grade(NamedTuple):
    """What the data that an episode leaves are worth.

    Attributes:
        reward: 1 is success.
        parts: Named parts of the reward.
        score: How near they come, from 0 to 1, for logs.
    """

    reward: float
    parts: Mapping[str, float]
    score: float


@dataclass
class Case:
    """One task of a kind.

    Attributes:
        kind: Its kind.
        goal: What to do, in sentences.
        short: The same in few characters.
        site: The site as it is at the beginning; an episode plays on a copy.
        goal_state: What `site.verified()` must be at the end.
        steps: A script that reaches the goal, its end included.
        misses: Scripts that come near and must earn nothing, by what is wrong with them.
        part_scores: What those of them earn that earn a part.
        answer: The answer that is asked for; "" where none is.
        is_impossible: Whether the goal cannot be reached, and saying so is what is right.
        grade: Judges the data at the end instead of their comparison with `goal_state`, and whatever the ending is.
    """

    kind: str
    goal: str
    short: str
    site: App
    goal_state: Mapping[str, Any]
    steps: Sequence[Step]
    misses: Mapping[str, Sequence[Step]] = field(default_factory=dict)
    answer: str = ""
    is_impossible: bool = False
    part_scores: Mapping[str, float] = field(default_factory=dict)
    grade: Callable[[Mapping[str, Any]], Grade] | None = None


class Draw:
    """Draws what a case consists of.

    Args:
        seed: Of the case; equal seeds draw the same.
        level: Difficulty, 1 to 3; of some sites also 0, for a model that learns its first page.
    """

    def __init__(self, seed: int, level: int) -> None:
        self._rng = np.random.Generator(np.random.PCG64(seed))
        self.level = level
        self.is_impossible = self._rng.random() < IMPOSSIBLE_SHARE

    def by_level(self, *values: T) -> T:
        """Return the value of the level; the last of `values` is that of level 3, the one before it that of level 2."""
        return values[self.level - 4]

    def one(self, choices: Sequence[T]) -> T:
        """Return one of several."""
        return choices[int(self._rng.integers(len(choices)))]

    def some(self, choices: Sequence[T], count: int) -> list[T]:
        """Return `count` different ones in any order."""
        return [choices[int(place)] for place in self._rng.permutation(len(choices))[:count]]

    def shuffle(self, values: Sequence[T]) -> list[T]:
        """Return all of them in any order."""
        return self.some(values, len(values))

    def number(self, low: int, high: int) -> int:
        """Return a whole number from `low` to `high`, both included."""
        return int(self._rng.integers(low, high + 1))

    def chance(self, share: float) -> bool:
        """Return true in this share of the draws."""
        return bool(self._rng.random() < share)

    def code(self, length: int = 5) -> str:
        """Return capital letters and digits that are easy to tell apart."""
        return "".join(self.one("ABCDEFGHJKMNPQRSTUVWXYZ23456789") for _ in range(length))


Kind = Callable[[Draw], Case]


def changed(site: App, **values: Any) -> dict[str, Any]:
    """Return the verified data of a site with other values at some keys: the state that a goal asks for."""
    return {**site.verified(), **values}
