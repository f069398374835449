"""Find the way through a maze of which only the exits of the present cell are seen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from envs.games.game import Game, checked
from envs.games.planning import followed, shortest
from envs.grading.choice import find_choice
from envs.procedural import drawn
from envs.types import Message, Outcome, Task, assistant, final_text

SIZES = range(4, 21)
VIEWS = ("exits", "compass", "position")
LENGTHS = {"train": 5_000, "val": 200, "test": 200}
WAYS = {"n": (-1, 0), "e": (0, 1), "s": (1, 0), "w": (0, -1)}  # row and column; a cell's exits are bits in this order
BIT = {way: 1 << i for i, way in enumerate(WAYS)}
BACK = {"n": "s", "e": "w", "s": "n", "w": "e"}
EXITS = {f"{bits:x}": "".join(way for way in WAYS if bits & BIT[way]) for bits in range(16)}
WORDS = {"n": "north", "e": "east", "s": "south", "w": "west"}
MEANINGS = {name: way for way, word in WORDS.items() for name in (way, word)}


class Maze(Game):
    """Walk to a goal whose direction is known, through walls that are not.

    Observation: the exits of the cell and, in view "compass", where the goal lies: `ne goal 2s 1w`. View "position"
    adds row and column of the cell: `ne at 0,3 goal 2s 1w`. View "exits" shows nothing else, so where the goal is must
    be found out. After an invalid reply the same with `!`.
    Action: `n`, `e`, `s` or `w`, or the word, `north`; of a longer reply the one direction that its last line names.
    A reply without one, or into a wall, is invalid; it costs a turn all the same.
    Reward: 1 on reaching the goal, else 0; its only named part is `win`.
    Metrics: `efficiency`, on reaching the goal: the length of the shortest path divided by the turns taken.
    Episode end: terminated by the goal, truncated after `max_turns`, by default three times `size`.
    Arguments: `size`, the side of the square; `loops`, the share of the walls inside it that are taken away from a
    maze with exactly one path between any two cells; `view`; `explain`: the rules open the episode.
    Splits: a maze stands in one split only. The goal is `size` to twice `size` moves away.
    State: the task and the cell, whatever the way there.
    Source and licence: generated (depth-first search with backtracking). Version history: v0.
    """

    def __init__(
        self,
        *,
        size: int = 4,
        loops: float = 0.0,
        view: str = "compass",
        max_turns: int | None = None,
        **own: Any,
    ) -> None:
        self.size = checked("size", size, SIZES)
        if not 0 <= loops <= 0.5:
            raise ValueError(f"loops {loops!r} is outside 0..0.5, a share of the walls")
        if view not in VIEWS:
            raise ValueError(f"view {view!r} is not one of {', '.join(VIEWS)}")
        super().__init__(max_turns=3 * size if max_turns is None else max_turns, **own)
        self.loops, self.view = float(loops), view
        self.step_of = {way: down * self.size + right for way, (down, right) in WAYS.items()}

    @property
    def rules(self) -> str:
        """The rules."""
        where = " and where the goal lies, such as '2s 1w' for two cells south and one west" * (self.view != "exits")
        return (
            f"You are in a maze of {self.size} by {self.size} cells. I name the exits of your cell, such as 'ne' for "
            f"north and east{where}. Each turn reply with one way to go: n, e, s or w."
        )

    def tasks(self, split: str) -> Sequence[Task]:
        """Random mazes; "val" and "test" hold each once."""
        key = f"games/Maze-v0:{self.size}:{self.loops}"
        return drawn(split, LENGTHS[split], self._draw, key=key, same=lambda task: task.metadata["maze"])

    def opening(self) -> str:
        """Look around."""
        self.maze, self.goal = self.task.metadata["maze"], self.task.metadata["goal"]
        self.cell = self.task.metadata["start"]
        return self._look()

    def state(self) -> str:
        """The task and the cell."""
        return f"{self.task.id} {self.cell}"

    def reply(self, action: Message) -> Outcome:
        """Take a step."""
        way = find_choice(final_text(action), MEANINGS)
        if way is None or way not in EXITS[self.maze[self.cell]]:
            return self.outcome(f"{self._look()}!", valid=False)
        self.cell += self.step_of[way]
        if self.cell != self.goal:
            return self.outcome(self._look())
        return self.outcome("", won=True, efficiency=self.task.metadata["shortest"] / (self.turns + 1))

    def oracle(self) -> Iterator[Message]:
        """A shortest path from wherever the player is."""
        way_out = followed(lambda: self.cell, lambda cell: self._moves(self.maze, cell), lambda cell: cell == self.goal)
        return map(assistant, way_out)

    def random(self, rng: np.random.Generator) -> Message:
        """Any direction, also into a wall."""
        return assistant("nesw"[int(rng.integers(4))])

    def attacks(self) -> Sequence[str]:
        """Among others: all directions at once, the way to the goal in one reply."""
        way = [step for step, _ in shortest(self.cell, lambda cell: self._moves(self.maze, cell), self.goal.__eq__)]
        return (*super().attacks(), "n e s w", " ".join(way), "".join(way), "goal", f"{self.goal}")

    def _look(self) -> str:
        exits = EXITS[self.maze[self.cell]]
        if self.view == "exits":
            return exits
        row, column = divmod(self.cell, self.size)
        down, right = self.goal // self.size - row, self.goal % self.size - column
        far = f" {abs(down)}{'s' if down > 0 else 'n'}" if down else ""
        far += f" {abs(right)}{'e' if right > 0 else 'w'}" if right else ""
        return f"{exits} at {row},{column} goal{far}" if self.view == "position" else f"{exits} goal{far}"

    def _moves(self, maze: str, cell: int) -> Iterator[tuple[str, int]]:
        return ((way, cell + self.step_of[way]) for way in EXITS[maze[cell]])

    def _draw(self, rng: np.random.Generator) -> Task:
        while True:
            maze = carved(self.size, self.loops, rng)
            start = int(rng.integers(len(maze)))
            distance = {start: 0}
            for cell in (reached := [start]):
                for _, there in self._moves(maze, cell):
                    if there not in distance:
                        distance[there] = distance[cell] + 1
                        reached.append(there)
            goals = [cell for cell in reached if self.size <= distance[cell] <= 2 * self.size]
            if goals:
                goal = goals[int(rng.integers(len(goals)))]
                return Task("", metadata={"maze": maze, "start": start, "goal": goal, "shortest": distance[goal]})


def carved(size: int, loops: float, rng: np.random.Generator) -> str:
    """A maze of `size * size` cells: one hexadecimal digit for each, whose bits are its exits n, e, s, w."""
    exits = [0] * size**2
    luck = iter(rng.random(6 * size**2).tolist())  # at most three draws a cell below, and two for its walls

    def walls(cell: int) -> list[tuple[str, int]]:
        """The ways from `cell` that stay inside and are not open, with where they lead."""
        row, column = divmod(cell, size)
        inside = (("n", row > 0), ("e", column < size - 1), ("s", row < size - 1), ("w", column > 0))
        steps = {"n": -size, "e": 1, "s": size, "w": -1}
        return [(way, cell + steps[way]) for way, may in inside if may and not exits[cell] & BIT[way]]

    def open_wall(cell: int, way: str, there: int) -> None:
        exits[cell] |= BIT[way]
        exits[there] |= BIT[BACK[way]]

    trail = [int(next(luck) * len(exits))]
    while trail:
        fresh = [(way, there) for way, there in walls(trail[-1]) if not exits[there]]
        if not fresh:
            trail.pop()
            continue
        way, there = fresh[int(next(luck) * len(fresh))]
        open_wall(trail[-1], way, there)
        trail.append(there)
    if loops:
        for cell in range(len(exits)):
            for way, there in walls(cell):
                if there > cell and next(luck) < loops:
                    open_wall(cell, way, there)
    return "".join(f"{bits:x}" for bits in exits)
