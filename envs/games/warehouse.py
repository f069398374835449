"""Warehouses for Sokoban: how a move changes one, and how far every situation is from the end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

STEPS = {"u": (-1, 0), "d": (1, 0), "l": (0, -1), "r": (0, 1)}
BACK = {"u": "d", "d": "u", "l": "r", "r": "l"}
FLOOR, WALL, PLAYER, BOX, GOAL, BOX_HOME, PLAYER_HOME = ".#PBG*+"
SITUATIONS = 30_000  # most situations a search holds


class Situation(NamedTuple):
    """Where the player and the boxes are; the boxes are the bits of an int, so that none has a name."""

    player: int
    boxes: int


@dataclass(frozen=True)
class Warehouse:
    """A square floor with walls on some cells and around it; `walls` and `goals` are the bits of an int."""

    size: int
    walls: int
    goals: int

    @cached_property
    def steps(self) -> dict[str, tuple[int, ...]]:
        """For each direction and cell the cell next to it, -1 where a wall is."""
        return {name: tuple(self._beside(cell, step) for cell in range(self.size**2)) for name, step in STEPS.items()}

    def _beside(self, cell: int, step: tuple[int, int]) -> int:
        row, column = cell // self.size + step[0], cell % self.size + step[1]
        there = row * self.size + column
        inside = 0 <= row < self.size and 0 <= column < self.size
        return there if inside and not self.walls >> there & 1 else -1

    def moved(self, now: Situation, direction: str) -> Situation | None:
        """The situation after a step, which pushes a box in its way; None where a wall or a second box stops it."""
        steps = self.steps[direction]
        there = steps[now.player]
        if there < 0:
            return None
        if not now.boxes >> there & 1:
            return Situation(there, now.boxes)
        beyond = steps[there]
        if beyond < 0 or now.boxes >> beyond & 1:
            return None
        return Situation(there, now.boxes ^ (1 << there | 1 << beyond))

    def before(self, now: Situation) -> Iterator[Situation]:
        """The situations from which one step leads to `now`."""
        for direction, steps in self.steps.items():
            there = self.steps[BACK[direction]][now.player]
            if there < 0 or now.boxes >> there & 1:
                continue
            yield Situation(there, now.boxes)
            pushed = steps[now.player]
            if pushed >= 0 and now.boxes >> pushed & 1:
                yield Situation(there, now.boxes ^ (1 << pushed | 1 << now.player))

    def distances(self, longest: int) -> dict[Situation, int]:
        """How many steps solve each situation that takes at most `longest`: the game played backwards, breadth first.

        The nearest ones only, where there are very many.
        """
        taken = self.walls | self.goals
        border = [Situation(cell, self.goals) for cell in range(self.size**2) if not taken >> cell & 1]
        found = dict.fromkeys(border, 0)
        for distance in range(1, longest + 1):
            if len(found) > SITUATIONS:
                break
            border = list(dict.fromkeys(past for now in border for past in self.before(now) if past not in found))
            found.update(dict.fromkeys(border, distance))
        return found

    def after(self, now: Situation) -> Iterator[tuple[str, Situation]]:
        """Each step that is possible and the situation it leads to."""
        for direction in STEPS:
            there = self.moved(now, direction)
            if there is not None:
                yield direction, there

    def drawn(self, now: Situation) -> str:
        """The map, one row a line."""
        marks = list(self.ground)
        boxes = now.boxes
        while boxes:
            lowest = boxes & -boxes
            self._put(marks, lowest.bit_length() - 1, BOX, BOX_HOME)
            boxes ^= lowest
        self._put(marks, now.player, PLAYER, PLAYER_HOME)
        return "".join(marks)

    @cached_property
    def ground(self) -> str:
        """The map without player and boxes."""
        kinds = ((self.walls, WALL), (self.goals, GOAL))
        marks = [next((mark for cells, mark in kinds if cells >> cell & 1), FLOOR) for cell in range(self.size**2)]
        return "\n".join("".join(marks[at : at + self.size]) for at in range(0, len(marks), self.size))

    def _put(self, marks: list[str], cell: int, mark: str, on_goal: str) -> None:
        place = cell + cell // self.size  # a line break ends every row
        marks[place] = on_goal if marks[place] == GOAL else mark


def read(drawing: str) -> tuple[Warehouse, Situation]:
    """The warehouse and the situation that a map shows."""
    cells = drawing.replace("\n", "")
    where = {mark: [cell for cell, found in enumerate(cells) if found in mark] for mark in ("#", "G*+", "B*", "P+")}
    walls, goals, boxes = (sum(1 << cell for cell in where[mark]) for mark in ("#", "G*+", "B*"))
    return Warehouse(drawing.index("\n"), walls, goals), Situation(where["P+"][0], boxes)
