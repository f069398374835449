"""Sokoban on small generated levels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any

import numpy as np

from envs.games.game import Game, checked, directions
from envs.games.planning import followed
from envs.games.warehouse import Situation, Warehouse, read
from envs.procedural import drawn
from envs.types import Message, Outcome, Task, assistant, final_text

SIZES, BOXES, LONGEST, AT_ONCE = range(3, 8), range(1, 4), range(4, 41), range(1, 101)
LENGTHS = {"train": 5000, "val": 100, "test": 100}
WALLS = 0.15  # share of the cells
DRAWS = 300  # floors without a long enough solution after which arguments count as impossible


class Sokoban(Game):
    r"""Push every box onto a goal.

    Observation: the map, one row a line: `P` the player, `B` a box, `G` a goal, `*` a box on a goal, `+` the player on
    one, `#` a wall, `.` floor; around the map are walls: `..G.\n.B..\n..#.\nP...`. After a reply that names no move
    `udlr?` and the map.
    Action: a step, `u`, `d`, `l` or `r`, also written out, `up`; it pushes the box in its way. With `at_once` above 1
    several, `rru` or `right, up`. Longer replies are read as `envs.games.game.directions` says. A step that a wall or
    a second box stops changes nothing, and the rest of the reply is not played. Such a reply, one that names more steps
    than allowed or none at all is invalid and costs a turn.
    Reward: 1 when every box is on a goal, else 0; its only named part is `win`.
    Metrics: `home`, the share of the boxes on goals; `steps`, those taken in the turn.
    Episode end: terminated by the win; truncated after `max_turns`, by default `longest` + 4. A box that can no longer
    be moved ends nothing.
    Arguments: `size`, the side of the square map, 3 to 7; `boxes`, 1 to 3; `longest`, how many steps the longest of
    the shortest solutions takes, 4 to 40, the shortest takes half of that; `at_once`, steps that a reply may name;
    `explain`: the rules open the episode.
    Splits: a level stands in one split only. Levels are found by playing backwards from the end.
    State: the map.
    Source and licence: generated; the game is by Hiroyuki Imabayashi (1981). Version history: v0.
    """

    def __init__(
        self,
        *,
        size: int = 4,
        boxes: int = 1,
        longest: int = 8,
        at_once: int = 1,
        max_turns: int | None = None,
        **own: Any,
    ) -> None:
        self.size, self.boxes = checked("size", size, SIZES), checked("boxes", boxes, BOXES)
        self.longest, self.at_once = checked("longest", longest, LONGEST), checked("at_once", at_once, AT_ONCE)
        super().__init__(max_turns=longest + 4 if max_turns is None else max_turns, **own)

    @property
    def rules(self) -> str:
        """The rules."""
        many = f" or up to {self.at_once} of them, as in ru" if self.at_once > 1 else ""
        return (
            "You are P. Push every box B onto a goal G; walls # and the edge stop you, and you cannot pull. "
            f"* is a box on a goal, + is you on one. Reply with one letter a turn, u, d, l or r{many}."
        )

    def tasks(self, split: str) -> Sequence[Task]:
        """Random levels; "val" and "test" hold each once."""
        key = f"games/Sokoban-v0:{self.size}:{self.boxes}:{self.longest}"
        return drawn(split, LENGTHS[split], self._draw, key=key, same=lambda task: task.metadata["map"])

    def opening(self) -> str:
        """Show the level."""
        self.shown: str = self.task.metadata["map"]
        self.warehouse, self.now = _level(self.shown)
        return self.shown

    def state(self) -> str:
        """The map."""
        return self.shown.replace("\n", "/")

    def reply(self, action: Message) -> Outcome:
        """Take the steps that the reply names, up to the first that is stopped."""
        letters = directions(final_text(action))
        if letters is None or len(letters) > self.at_once:
            return self.outcome(f"udlr?\n{self.shown}", valid=False, home=self._home(), steps=0)
        taken, won = 0, False
        for letter in letters:
            there = self.warehouse.moved(self.now, letter)
            if there is None or won:
                break
            self.now, won = there, self._is_solved(there)
            taken += 1
        if taken:
            self.shown = self.warehouse.drawn(self.now)
        valid = won or taken == len(letters)
        return self.outcome(self.shown, won=won, valid=valid, home=self._home(), steps=taken)

    def oracle(self) -> Iterator[Message]:
        """A shortest solution, found again wherever others have led the player; `u` where there is none left."""
        with suppress(ValueError):
            yield from map(assistant, followed(lambda: self.now, self.warehouse.after, self._is_solved))
        while True:
            yield assistant("u")

    def random(self, rng: np.random.Generator) -> Message:
        """Any step."""
        return assistant("udlr"[int(rng.integers(4))])

    def attacks(self) -> Sequence[str]:
        """Among others: the whole solution in one reply where that is too long, and the map as it should be."""
        solved = self.warehouse.drawn(Situation(self.now.player, self.warehouse.goals))
        long = "udlr" * (self.at_once // 4 + 1)
        return (*super().attacks(), long, f"{long} up", "up or down", " ".join(["up", "down"] * 200), solved, "*" * 50)

    def _is_solved(self, now: Situation) -> bool:
        return now.boxes == self.warehouse.goals

    def _home(self) -> float:
        return (self.now.boxes & self.warehouse.goals).bit_count() / self.boxes

    def _draw(self, rng: np.random.Generator) -> Task:
        cells = self.size**2
        for _ in range(DRAWS):
            walls = sum(1 << cell for cell, luck in enumerate(rng.random(cells).tolist()) if luck < WALLS)
            floor = [cell for cell in range(cells) if not walls >> cell & 1]
            if len(floor) <= 2 * self.boxes:
                continue
            goals = sum(1 << floor[place] for place in rng.permutation(len(floor))[: self.boxes].tolist())
            warehouse = Warehouse(self.size, walls, goals)
            found = warehouse.distances(self.longest)
            fitting = [now for now, distance in found.items() if 2 * distance >= self.longest]
            if fitting:
                return Task("", metadata={"map": warehouse.drawn(fitting[int(rng.integers(len(fitting)))])})
        asked = f"size={self.size}, boxes={self.boxes}"
        raise ValueError(f"longest={self.longest} is out of reach with {asked}; ask for fewer steps")


@lru_cache(maxsize=1024)
def _level(drawing: str) -> tuple[Warehouse, Situation]:
    return read(drawing)
