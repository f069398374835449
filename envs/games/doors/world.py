"""What the worlds of `games/Doors-v0` have in common: what a turn does, and draws that hang on seed and replies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from envs.episodes.guide import Guide
from envs.procedural import digest
from envs.types import Task

LENGTHS = {"train": 5_000, "val": 100, "test": 200}
KEY = "games/Doors-v0"


class Move(NamedTuple):
    """What a turn has done: what it pays, whether it ends the episode and wins it, and what is told of it."""

    reward: float = 0.0
    is_over: bool = False
    is_won: bool = False
    news: str = ""
    metrics: Mapping[str, float] = {}


class World:
    """The rules of one kind of episode. `begin` sets a task up; `play` is given an entry of `actions`, or None.

    Attributes:
        actions: The replies that mean something.
        salt: Number of the episode, drawn from its seed.
        past: The replies so far, by their first letter or digit; `-` for an invalid one.
    """

    actions: Sequence[str]
    reward_name = "win"
    invalid_cost = ""  # a sentence for the correction of an invalid reply, beyond that it uses one up

    def tasks(self, split: str) -> Sequence[Task]:
        """Return the tasks of a split."""
        raise NotImplementedError

    def begin(self, metadata: Mapping[str, Any], salt: int) -> None:
        """Set up the situation of a task."""
        self.metadata, self.salt, self.past = metadata, salt, ""
        self.enter()

    def enter(self) -> None:
        """Put the player at the beginning of `self.metadata`."""
        raise NotImplementedError

    def luck(self, *what: str) -> float:
        """A number in 0..1 that differs between episodes of one seed as soon as their replies differ.

        Members of a group share the seed. With the generator of the seed they would share their luck too, and a
        comparison between them would be free of it.
        """
        return digest(KEY, self.salt, self.past, *what) / 2**64

    def play(self, action: str | None) -> Move:
        """Play a reply; None stands for one that names no action."""
        raise NotImplementedError

    def best(self) -> str:
        """The action that the oracle takes."""
        raise NotImplementedError

    def view(self, is_full: bool) -> str:
        """What the player sees, in a sentence or short."""
        raise NotImplementedError

    def key(self) -> str:
        """The situation, as far as it matters for what comes, but for the number of turns left."""
        raise NotImplementedError

    def guide(self, legend: bool) -> Guide:
        """The instructions; with `legend` they hold what else is learnt from outcomes only."""
        raise NotImplementedError
