"""Sokoban on small generated levels of a given difficulty."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any

import numpy as np

from envs.episodes.guide import Guide
from envs.games.game import Game, check_range, parse_directions
from envs.games.planning import follow_plan
from envs.games.warehouse import Situation, Warehouse, parse_map
from envs.procedural import drawn
from envs.types import Message, Outcome, Task, assistant, final_text

SIZES, BOXES, LONGEST, STEPS_AT_ONCE = range(3, 8), range(1, 4), range(4, 41), range(1, 101)
LENGTHS = {"train": 5000, "val": 100, "test": 100}
WALLS = 0.15  # share of the cells that are walls
WORDS = {"u": "up", "d": "down", "l": "left", "r": "right"}
MAX_DRAWS = 300  # maps without a long enough solution after which the arguments count as impossible


class Sokoban(Game):
    r"""Push every box onto a goal.

    Observation: the map, one row per line: `P` the player, `B` a box, `G` a goal, `*` a box on a goal, `+` the player
    on a goal, `#` a wall, `.` floor; walls surround the map: `..G.\n.B..\n..#.\nP...`. After a reply that names no move
    `udlr?` and the map. In full style the instructions first, and spaces between the signs.
    Action: a step, `u`, `d`, `l` or `r`, or the word, `up`; it pushes the box in its way. With `at_once` above 1
    several steps, `rru` or `right, up`. Longer replies are read as `envs.games.game.parse_directions` says. A step that
    a wall or a second box stops changes nothing, and the rest of the reply is not played. Such a reply, and one that
    names too many steps or none, is invalid and costs a turn.
    Reward: 1 when every box is on a goal, else 0; its only named part is `win`.
    Metrics: `home`, the share of the boxes on goals; `steps`, the number of steps of the turn.
    Episode end: terminated by the win; truncated after `max_turns`, by default `longest` + 4. A box that can no longer
    be moved does not end the episode.
    Arguments: `size`, the side of the square map, 3 to 7; `boxes`, 1 to 3; `longest`, 4 to 40: the shortest solution of
    a level has at most so many steps, and at least half as many; `at_once`, steps that a reply may name.
    Splits: a level is in one split only. Levels are found by playing backwards from the solved map.
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
        **kwargs: Any,
    ) -> None:
        self.size, self.boxes = check_range("size", size, SIZES), check_range("boxes", boxes, BOXES)
        self.longest, self.at_once = (
            check_range("longest", longest, LONGEST),
            check_range("at_once", at_once, STEPS_AT_ONCE),
        )
        super().__init__(max_turns=longest + 4 if max_turns is None else max_turns, **kwargs)

    @property
    def rules(self) -> str:
        """Rules of the game as a system message, in style "v1"."""
        many = f" or up to {self.at_once} of them, as in ru" if self.at_once > 1 else ""
        return (
            "You are P. Push every box B onto a goal G; walls # and the edge stop you, and you cannot pull. "
            f"* is a box on a goal, + is you on one. Reply with one letter a turn, u, d, l or r{many}."
        )

    def guide(self) -> Guide:
        """Say what the map shows, and what a step does."""
        many = (
            "Only one step counts per reply."
            if self.at_once == 1
            else f"You may name up to {self.at_once} steps in one reply, such as `right, up`, which are taken in order."
        )
        return Guide(
            goal=(
                f"Play Sokoban: push {'the box onto the goal' if self.boxes == 1 else 'every box onto a goal'}. You "
                f"succeed when {'the box is on the goal' if self.boxes == 1 else 'all boxes are on goals'}."
            ),
            rules=(
                f"The map has {self.size} rows of {self.size} cells, the top row first; its edge is a wall. A step "
                "takes you one cell up, down, left or right. If a box is in this cell, you push it one cell further, "
                "unless a wall, the edge or another box is behind it; then nothing moves. You cannot pull a box, so a "
                "box in a corner may be stuck for good, which does not end the episode."
            ),
            legend={
                "P": "you",
                "B": "a box",
                "G": "a goal",
                "*": "a box on a goal",
                "+": "you on a goal",
                "#": "a wall",
                ".": "free floor",
            },
            reading="For example, in the row `. P B G` one step right pushes the box onto the goal.",
            reply=f"Reply with one step: up, down, left or right. {many}",
            noun="step" if self.at_once == 1 else "steps",
            example=self._possible_step(),
            ending="The episode ends when the puzzle is solved.",
            invalid="A reply that names no step, or too many, or a step that is blocked, uses up a reply.",
            heading="The map:",
        )

    def drawing(self) -> str:
        """Return the signs of the map."""
        return " ".join(self.map_text.replace("\n", ""))

    def _possible_step(self) -> str:
        """Return a step that nothing blocks now; "up" if there is none."""
        steps = (word for letter, word in WORDS.items() if self.warehouse.move(self.situation, letter) is not None)
        return next(steps, "up")

    def tasks(self, split: str) -> Sequence[Task]:
        """Return random levels; "val" and "test" contain each level once."""
        key = f"games/Sokoban-v0:{self.size}:{self.boxes}:{self.longest}"
        return drawn(split, LENGTHS[split], self._draw, key=key, same=lambda task: task.metadata["map"])

    def opening(self) -> str:
        """Set up the level and return its map."""
        self.map_text: str = self.task.metadata["map"]
        self.warehouse, self.situation = parse_level(self.map_text)
        return self._describe_map()

    def state(self) -> str:
        """Return the map in one line."""
        return self.map_text.replace("\n", "/")

    def reply(self, action: Message) -> Outcome:
        """Play the steps that the reply names, up to the first that is stopped or that wins."""
        letters = parse_directions(final_text(action))
        if letters is None or len(letters) > self.at_once:
            fault = f"Your reply names {'no step' if letters is None else 'too many steps'}, or cannot be read."
            answer = self.correction(fault, self._describe_map(), short=f"udlr?\n{self.map_text}")
            return self.outcome(answer, valid=False, home=self._home_share(), steps=0)
        steps, is_won = 0, False
        for letter in letters:
            next_situation = self.warehouse.move(self.situation, letter)
            if next_situation is None or is_won:
                break
            self.situation, is_won = next_situation, self._is_solved(next_situation)
            steps += 1
        if steps:
            self.map_text = self.warehouse.render(self.situation)
        valid = is_won or steps == len(letters)
        text = self._describe_map()
        if not valid:
            fault = f"The step {WORDS[letters[steps]]} is blocked by a wall, the edge or a second box."
            text = self.correction(fault, text, short=text)
        text = f"{text}\nAll boxes stand on goals." if is_won else text
        return self.outcome(text, is_won=is_won, valid=valid, home=self._home_share(), steps=steps)

    def oracle(self) -> Iterator[Message]:
        """Yield the steps of a shortest solution from the current state; `u` if no solution is left."""
        with suppress(ValueError):
            yield from map(assistant, follow_plan(lambda: self.situation, self.warehouse.successors, self._is_solved))
        while True:
            yield assistant("u")

    def random(self, rng: np.random.Generator) -> Message:
        """Return one of the four steps, each equally likely."""
        return assistant("udlr"[int(rng.integers(4))])

    def attacks(self) -> Sequence[str]:
        """Return replies that must earn 0, among them more steps than a reply may name, and the solved map."""
        solution_map = self.warehouse.render(Situation(self.situation.player, self.warehouse.goals))
        long = "udlr" * (self.at_once // 4 + 1)
        return (
            *super().attacks(),
            long,
            f"{long} up",
            "up or down",
            " ".join(["up", "down"] * 200),
            solution_map,
            "*" * 50,
        )

    def _describe_map(self) -> str:
        """Return the map, in full style with spaces between the signs."""
        if self.style != "full":
            return self.map_text
        return "\n".join(" ".join(row) for row in self.map_text.split("\n"))

    def _is_solved(self, situation: Situation) -> bool:
        return situation.boxes == self.warehouse.goals

    def _home_share(self) -> float:
        return (self.situation.boxes & self.warehouse.goals).bit_count() / self.boxes

    def _draw(self, rng: np.random.Generator) -> Task:
        return Task("", metadata={"map": draw_level(rng, self.size, self.boxes, self.longest)})


def draw_level(rng: np.random.Generator, size: int, boxes: int, longest: int) -> str:
    """Return the map of a random level whose shortest solution has at most `longest` steps, and at least half as many.

    Raises ValueError if many maps of this `size` with so many `boxes` have no such level.
    """
    cells = size**2
    for _ in range(MAX_DRAWS):
        walls = sum(1 << cell for cell, number in enumerate(rng.random(cells).tolist()) if number < WALLS)
        floor = [cell for cell in range(cells) if not walls >> cell & 1]
        if len(floor) <= 2 * boxes:
            continue
        goals = sum(1 << floor[place] for place in rng.permutation(len(floor))[:boxes].tolist())
        warehouse = Warehouse(size, walls, goals)
        distances = warehouse.distances(longest)
        choices = [situation for situation, distance in distances.items() if 2 * distance >= longest]
        if choices:
            return warehouse.render(choices[int(rng.integers(len(choices)))])
    raise ValueError(f"longest={longest} is out of reach with size={size}, boxes={boxes}; ask for fewer steps")


@lru_cache(maxsize=1024)
def parse_level(map_text: str) -> tuple[Warehouse, Situation]:
    """Return the warehouse and the situation of a map, which are not to be changed."""
    return parse_map(map_text)
