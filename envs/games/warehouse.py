"""Warehouses of Sokoban: the rules of a step, and the distance of every situation from the solution."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

STEPS = {"u": (-1, 0), "d": (1, 0), "l": (0, -1), "r": (0, 1)}
BACK = {"u": "d", "d": "u", "l": "r", "r": "l"}
FLOOR, WALL, PLAYER, BOX, GOAL, BOX_HOME, PLAYER_HOME = ".#PBG*+"
MAX_SITUATIONS = 30_000  # situations at which a search stops


class Situation(NamedTuple):
    """Cell of the player and set of the boxes' cells, the bits of an int; boxes are interchangeable."""

    player: int
    boxes: int


@dataclass(frozen=True)
class Warehouse:
    """A square map of side `size`, surrounded by walls; `walls` and `goals` are sets of cells, the bits of an int."""

    size: int
    walls: int
    goals: int

    @cached_property
    def neighbours(self) -> dict[str, tuple[int, ...]]:
        """For each direction, the neighbour of each cell; -1 if that is a wall."""
        return {
            name: tuple(self._neighbour(cell, step) for cell in range(self.size**2)) for name, step in STEPS.items()
        }

    def _neighbour(self, cell: int, step: tuple[int, int]) -> int:
        row, column = cell // self.size + step[0], cell % self.size + step[1]
        there = row * self.size + column
        inside = 0 <= row < self.size and 0 <= column < self.size
        return there if inside and not self.walls >> there & 1 else -1

    def move(self, situation: Situation, direction: str) -> Situation | None:
        """Return the situation after a step, which may push a box; None if a wall or a second box stops the step."""
        neighbours = self.neighbours[direction]
        there = neighbours[situation.player]
        if there < 0:
            return None
        if not situation.boxes >> there & 1:
            return Situation(there, situation.boxes)
        beyond = neighbours[there]
        if beyond < 0 or situation.boxes >> beyond & 1:
            return None
        return Situation(there, situation.boxes ^ (1 << there | 1 << beyond))

    def predecessors(self, situation: Situation) -> Iterator[Situation]:
        """Yield the situations from which one step leads to `situation`."""
        for direction, neighbours in self.neighbours.items():
            there = self.neighbours[BACK[direction]][situation.player]
            if there < 0 or situation.boxes >> there & 1:
                continue
            yield Situation(there, situation.boxes)
            destination = neighbours[situation.player]
            if destination >= 0 and situation.boxes >> destination & 1:
                yield Situation(there, situation.boxes ^ (1 << destination | 1 << situation.player))

    def distances(self, longest: int) -> dict[Situation, int]:
        """Return the length of the shortest solution of each situation that can be solved in at most `longest` steps.

        Breadth-first search backwards from the solved situations. It stops beyond `MAX_SITUATIONS`, so that with very
        many situations only those nearest to the solution are returned.
        """
        walls_and_goals = self.walls | self.goals
        border = [Situation(cell, self.goals) for cell in range(self.size**2) if not walls_and_goals >> cell & 1]
        distances = dict.fromkeys(border, 0)
        for distance in range(1, longest + 1):
            if len(distances) > MAX_SITUATIONS:
                break
            border = list(
                dict.fromkeys(
                    predecessor
                    for situation in border
                    for predecessor in self.predecessors(situation)
                    if predecessor not in distances
                )
            )
            distances.update(dict.fromkeys(border, distance))
        return distances

    def successors(self, situation: Situation) -> Iterator[tuple[str, Situation]]:
        """Yield each possible step with the situation it leads to."""
        for direction in STEPS:
            there = self.move(situation, direction)
            if there is not None:
                yield direction, there

    def render(self, situation: Situation) -> str:
        """Draw the map, one row per line."""
        symbols = list(self.empty_map)
        boxes = situation.boxes
        while boxes:
            lowest = boxes & -boxes
            self._place_symbol(symbols, lowest.bit_length() - 1, BOX, BOX_HOME)
            boxes ^= lowest
        self._place_symbol(symbols, situation.player, PLAYER, PLAYER_HOME)
        return "".join(symbols)

    @cached_property
    def empty_map(self) -> str:
        """The map without the player and the boxes."""
        kinds = ((self.walls, WALL), (self.goals, GOAL))
        symbols = [
            next((symbol for cells, symbol in kinds if cells >> cell & 1), FLOOR) for cell in range(self.size**2)
        ]
        return "\n".join("".join(symbols[at : at + self.size]) for at in range(0, len(symbols), self.size))

    def _place_symbol(self, symbols: list[str], cell: int, symbol: str, on_goal: str) -> None:
        position = cell + cell // self.size  # a line break ends every row
        symbols[position] = on_goal if symbols[position] == GOAL else symbol


def parse_map(map_text: str) -> tuple[Warehouse, Situation]:
    """Parse a map into its warehouse and situation."""
    cells = map_text.replace("\n", "")
    cells_of = {
        symbols: [cell for cell, symbol in enumerate(cells) if symbol in symbols]
        for symbols in ("#", "G*+", "B*", "P+")
    }
    walls, goals, boxes = (sum(1 << cell for cell in cells_of[symbols]) for symbols in ("#", "G*+", "B*"))
    return Warehouse(map_text.index("\n"), walls, goals), Situation(cells_of["P+"][0], boxes)
