"""Maze: find the way to a goal, seeing only the exits of the current cell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from envs.episodes.guide import Guide, count, listing
from envs.games.game import COMPASS_SYNONYMS, Game, check_range
from envs.games.planning import follow_plan, shortest_plan
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
SYNONYMS = {name: word[0] for name, word in COMPASS_SYNONYMS.items() if len(name) > 1 or not name.isascii()}


class Maze(Game):
    """Walk to a goal whose direction is known through a maze that is not.

    Observation: the exits of the cell and, in view "compass", where the goal lies: `ne goal 2s 1w`. View "position"
    adds row and column of the cell: `ne at 0,3 goal 2s 1w`. View "exits" shows the exits only, so the goal must be
    searched for. After an invalid reply the same with `!`. In full style the
    instructions first, and sentences.
    Action: `n`, `e`, `s` or `w`, or the word, `north`; of a longer reply the one direction that its last line names.
    A reply without one, or into a wall, is invalid; it still costs a turn.
    Reward: 1 on reaching the goal, else 0; its only named part is `win`.
    Metrics: `efficiency`, on reaching the goal: the length of the shortest path divided by the turns taken.
    Episode end: terminated by the goal, truncated after `max_turns`, by default four times `size`, twice the
    longest way, and in short style three times.
    Arguments: `size`, the side of the square; `loops`, the share of the inner walls that are removed from a maze with
    exactly one path between any two cells; `view`.
    Splits: a maze is in one split only. The goal is `size` to twice `size` moves away.
    State: the task and the cell; the path to it does not count.
    Source and licence: generated (depth-first search with backtracking). Version history: v0.
    """

    def __init__(
        self,
        *,
        size: int = 4,
        loops: float = 0.0,
        view: str = "compass",
        max_turns: int | None = None,
        **kwargs: Any,
    ) -> None:
        self.size = check_range("size", size, SIZES)
        if not 0 <= loops <= 0.5:
            raise ValueError(f"loops {loops!r} is outside 0..0.5, a share of the walls")
        if view not in VIEWS:
            raise ValueError(f"view {view!r} is not one of {', '.join(VIEWS)}")
        if max_turns is None:  # the goal is at most 2 * size moves away; who explores walks into dead ends, too
            max_turns = (4 if kwargs.get("style", "full") == "full" else 3) * size
        super().__init__(max_turns=max_turns, **kwargs)
        self.loops, self.view = float(loops), view
        self.step_of = {way: down * self.size + right for way, (down, right) in WAYS.items()}

    @property
    def rules(self) -> str:
        """Rules of the game as a system message, in style "v1"."""
        where = " and where the goal lies, such as '2s 1w' for two cells south and one west" * (self.view != "exits")
        return (
            f"You are in a maze of {self.size} by {self.size} cells. I name the exits of your cell, such as 'ne' for "
            f"north and east{where}. Each turn reply with one way to go: n, e, s or w."
        )

    def guide(self) -> Guide:
        """Say what a player sees of the maze, and how to walk in it."""
        views = {
            "exits": "You are not told where the goal is; search for it.",
            "compass": "You are also told how far the goal is and in which direction, as if there were no walls.",
            "position": (
                "You are also told your row and column, counted from 0 in the north-west corner, and how far the goal "
                "is and in which direction, as if there were no walls."
            ),
        }
        return Guide(
            goal="Walk through a maze to its goal. You succeed when you reach the cell of the goal.",
            rules=(
                f"The maze has {self.size} rows and {self.size} columns of cells, with walls between some of them. You "
                "see one cell at a time: after each reply you are told the exits of the cell where you are, the "
                f"directions without a wall. {views[self.view]} A reply takes you one cell in one direction."
            ),
            reading=(
                ""
                if self.view == "exits"
                else (
                    "For example, 'Exits: north, east. The goal is 2 cells to the south and 1 cell to the west.' means "
                    "that you can go north or east now, and that the way to the goal has to lead around walls."
                )
            ),
            reply="Reply with one direction: north, east, south or west. Only one direction counts per reply.",
            noun="direction",
            example=WORDS[EXITS[self.maze[self.cell]][0]],
            ending="The episode ends when you reach the goal.",
            invalid=(
                "A reply that names no direction, or several, or a direction with a wall, leaves you in the same cell "
                "and uses up a reply; nothing else is lost."
            ),
            heading="The first cell:",
        )

    def tasks(self, split: str) -> Sequence[Task]:
        """Return random mazes; "val" and "test" contain each maze once."""
        key = f"games/Maze-v0:{self.size}:{self.loops}"
        return drawn(split, LENGTHS[split], self._draw, key=key, same=lambda task: task.metadata["maze"])

    def opening(self) -> str:
        """Put the player on the start cell and describe it."""
        self.maze, self.goal = self.task.metadata["maze"], self.task.metadata["goal"]
        self.cell = self.task.metadata["start"]
        return self._describe_cell()

    def state(self) -> str:
        """Return the task and the cell of the player."""
        return f"{self.task.id} {self.cell}"

    def reply(self, action: Message) -> Outcome:
        """Move the player in the direction that the reply names, if that is an exit."""
        way = find_choice(final_text(action), MEANINGS, SYNONYMS)
        if way is None or way not in EXITS[self.maze[self.cell]]:
            fault = "Your reply does not name exactly one direction."
            fault = fault if way is None else f"There is a wall to the {WORDS[way]}; you are still in the same cell."
            return self.outcome(
                self.correction(fault, self._describe_cell(), short=f"{self._short_text()}!"), valid=False
            )
        self.cell += self.step_of[way]
        if self.cell != self.goal:
            return self.outcome(self._describe_cell())
        return self.outcome(
            "You have reached the goal.", is_won=True, efficiency=self.task.metadata["shortest"] / (self.turns + 1)
        )

    def oracle(self) -> Iterator[Message]:
        """Return the moves of a shortest path from the player's current cell."""
        way_out = follow_plan(
            lambda: self.cell, lambda cell: self._moves(self.maze, cell), lambda cell: cell == self.goal
        )
        return map(assistant, way_out)

    def random(self, rng: np.random.Generator) -> Message:
        """Return one of the four directions, which may lead into a wall."""
        return assistant("nesw"[int(rng.integers(4))])

    def attacks(self) -> Sequence[str]:
        """Return replies that must earn 0.

        Among them are all directions at once and the whole path to the goal in one reply.
        """
        way = [
            step for step, _ in shortest_plan(self.cell, lambda cell: self._moves(self.maze, cell), self.goal.__eq__)
        ]
        return (*super().attacks(), "n e s w", " ".join(way), "".join(way), "goal", f"{self.goal}")

    def _describe_cell(self) -> str:
        if self.style != "full":
            return self._short_text()
        sentences = [f"Exits: {', '.join(WORDS[way] for way in EXITS[self.maze[self.cell]])}."]
        row, column = divmod(self.cell, self.size)
        down, right = self.goal // self.size - row, self.goal % self.size - column
        if self.view == "position":
            sentences.append(f"You are at row {row}, column {column}.")
        if self.view != "exits":
            ways = [(down, "south" if down > 0 else "north"), (right, "east" if right > 0 else "west")]
            distances = [f"{count(abs(number), 'cell')} to the {way}" for number, way in ways if number]
            sentences.append(f"The goal is {listing(distances)}.")
        return " ".join(sentences)

    def _short_text(self) -> str:
        exits = EXITS[self.maze[self.cell]]
        if self.view == "exits":
            return exits
        row, column = divmod(self.cell, self.size)
        down, right = self.goal // self.size - row, self.goal % self.size - column
        distance_text = f" {abs(down)}{'s' if down > 0 else 'n'}" if down else ""
        distance_text += f" {abs(right)}{'e' if right > 0 else 'w'}" if right else ""
        return (
            f"{exits} at {row},{column} goal{distance_text}"
            if self.view == "position"
            else f"{exits} goal{distance_text}"
        )

    def _moves(self, maze: str, cell: int) -> Iterator[tuple[str, int]]:
        return ((way, cell + self.step_of[way]) for way in EXITS[maze[cell]])

    def _draw(self, rng: np.random.Generator) -> Task:
        while True:
            maze = carve_maze(self.size, self.loops, rng)
            start = int(rng.integers(len(maze)))
            distance = {start: 0}
            for cell in (queue := [start]):
                for _, there in self._moves(maze, cell):
                    if there not in distance:
                        distance[there] = distance[cell] + 1
                        queue.append(there)
            goals = [cell for cell in queue if self.size <= distance[cell] <= 2 * self.size]
            if goals:
                goal = goals[int(rng.integers(len(goals)))]
                return Task("", metadata={"maze": maze, "start": start, "goal": goal, "shortest": distance[goal]})


def carve_maze(size: int, loops: float, rng: np.random.Generator) -> str:
    """Generate a maze by depth-first search with backtracking.

    Args:
        size: Side of the square.
        loops: Probability with which each inner wall is then removed.
        rng: Generator of all draws.

    Returns:
        One hexadecimal digit per cell, row by row; its bits are the exits n, e, s, w of the cell (`BIT`).
    """
    exits = [0] * size**2
    uniforms = iter(rng.random(6 * size**2).tolist())  # per cell at most three for the search, two for its walls

    def walls(cell: int) -> list[tuple[str, int]]:
        """Return the closed directions of `cell` that lead to another cell, each with that cell."""
        row, column = divmod(cell, size)
        inside = (("n", row > 0), ("e", column < size - 1), ("s", row < size - 1), ("w", column > 0))
        steps = {"n": -size, "e": 1, "s": size, "w": -1}
        return [(way, cell + steps[way]) for way, is_inside in inside if is_inside and not exits[cell] & BIT[way]]

    def open_wall(cell: int, way: str, there: int) -> None:
        exits[cell] |= BIT[way]
        exits[there] |= BIT[BACK[way]]

    trail = [int(next(uniforms) * len(exits))]
    while trail:
        unvisited = [(way, there) for way, there in walls(trail[-1]) if not exits[there]]
        if not unvisited:
            trail.pop()
            continue
        way, there = unvisited[int(next(uniforms) * len(unvisited))]
        open_wall(trail[-1], way, there)
        trail.append(there)
    if loops:
        for cell in range(len(exits)):
            for way, there in walls(cell):
                if there > cell and next(uniforms) < loops:
                    open_wall(cell, way, there)
    return "".join(f"{bits:x}" for bits in exits)
