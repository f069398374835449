"""Frozen lake: Gymnasium's FrozenLake-v1 as text, with a generated map for every task."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from envs.episodes.guide import Guide
from envs.games.game import SCREEN_SYNONYMS
from envs.games.verbalised import Verbalised
from envs.procedural import drawn
from envs.types import Message, Outcome, Task, assistant

SIZES = range(3, 11)
HOLES = 0.3  # share of the cells; with fewer holes, one fixed path would cross too many maps
STEPS = {"left": (0, -1), "down": (1, 0), "right": (0, 1), "up": (-1, 0)}  # in the order of the action numbers


class FrozenLake(Verbalised):
    r"""Walk from the top left to the bottom right corner without falling into a hole.

    Observation: one user message with the map, one row per line, such as `P.#.\n....\n.#..\n...G`: `P` the player, `#`
    a hole, `.` ice, `G` the goal. An invalid reply is answered by `left|down|right|up?` and the map. In full style the
    instructions first, and spaces between the signs.
    Action: `left`, `down`, `right` or `up`; of a longer reply, the only one of these words in its last line.
    Reward: 1 on reaching the goal, else 0.
    Episode end: terminated by the goal or a hole; truncated after `max_turns`, by default three times `size`.
    Arguments: `size`, the side of the square map; `slippery`: two moves in three go sideways, drawn from the
    episode's seed, so that no policy, not even the oracle, wins every time.
    Splits: a map is in one split only. Every map has a path of at most three times `size` moves, less two.
    State: the map with the player on it.
    Source and licence: gymnasium's toy_text (MIT), own maps. Version history: v0.
    """

    has_markov_state = True
    game = "FrozenLake-v1"
    actions = tuple(STEPS)
    synonyms = MappingProxyType(SCREEN_SYNONYMS)
    rules = "You are P on a frozen lake. Reach G, avoid the holes #. Reply with one word a turn: left, down, right, up."

    def __init__(self, *, size: int = 4, slippery: bool = False, max_turns: int | None = None, **limits: Any) -> None:
        if size not in SIZES:
            raise ValueError(f"size {size!r} is outside {SIZES[0]}..{SIZES[-1]}")
        super().__init__(max_turns=3 * size if max_turns is None else max_turns, **limits)
        self.size, self.slippery = int(size), bool(slippery)

    def tasks(self, split: str) -> Sequence[Task]:
        """Return random maps; "val" and "test" contain each map once."""
        held_out = 5 if self.size == 3 else 200
        length = 10_000 if split == "train" else held_out
        key = f"games/FrozenLake-v0:{self.size}"
        return drawn(split, length, self._draw, key=key, same=lambda task: task.metadata["map"])

    def game_arguments(self) -> dict[str, Any]:
        """Arguments of the game: the map of the task and whether it is slippery."""
        return {"desc": self._map, "is_slippery": self.slippery}

    def game_seed(self) -> int:
        """Seed drawn from the episode's generator: the task only fixes the map."""
        return int(self.np_random.integers(2**31))

    def guide(self) -> Guide:
        """Say what the map shows, and how to move on it."""
        slips = (
            "The ice is slippery: a move goes in the direction that you name only one time in three, and otherwise to "
            "one of its two sides."
        )
        return self.action_guide(
            goal=(
                "Walk across a frozen lake from the top left cell to the bottom right cell. You succeed if you reach "
                "the goal. If you step into a hole, the episode ends and you have failed."
            ),
            rules=(
                f"After each reply you see the map, {self.size} rows of {self.size} cells, the top row first. A move "
                "takes you one cell to the left, down, to the right or up. A move over the edge of the map leaves you "
                f"where you are. {slips if self.slippery else 'You never slip.'}"
            ),
            legend={"P": "you", "#": "a hole", ".": "ice, on which you can walk", "G": "the goal"},
            reading="For example, the row `. P #` means: ice on the left, then you, then a hole to your right.",
            example="right",
            ending="The episode ends when you reach the goal or fall into a hole.",
            heading="The map:",
        )

    def ending(self, outcome: Outcome) -> str:
        """Say which of the two ends it is."""
        return "You have reached the goal." if outcome.success else "You have fallen into a hole."

    def drawing(self) -> str:
        """Return the signs of the map."""
        return " ".join(self._draw_map(int(self.observation), "").replace("\n", ""))

    def describe(self, observation: Any) -> str:
        """Draw the map with the player on it, one row per line."""
        return self._draw_map(int(observation), " " if self.style == "full" else "")

    def _draw_map(self, cell: int, gap: str) -> str:
        cells = list("".join(self._map).translate(str.maketrans("SFH", "..#")))
        cells[cell] = "P"
        return "\n".join(gap.join(cells[i : i + self.size]) for i in range(0, len(cells), self.size))

    def state(self) -> str:
        """Return the map with the player on it, in one line."""
        return self._draw_map(int(self.observation), "").replace("\n", "/")

    def oracle(self) -> Iterator[Message]:
        """Yield the next move of a shortest path from the player's current cell."""
        while True:
            yield assistant(shortest_path(self._map, int(self.observation))[0])

    @property
    def _map(self) -> list[str]:
        return self.task.metadata["map"].split("/")

    def _draw(self, rng: np.random.Generator) -> Task:
        while True:
            cells = np.where(rng.random((self.size, self.size)) < HOLES, "H", "F")
            cells[0, 0], cells[-1, -1] = "S", "G"
            rows = ["".join(row) for row in cells]
            if 0 < len(shortest_path(rows, 0)) <= 3 * self.size - 2:
                return Task("", metadata={"map": "/".join(rows)})


def shortest_path(rows: Sequence[str], start: int) -> list[str]:
    """Return the moves of a shortest path from cell `start` to the goal (breadth-first search); [] if there is none."""
    size = len(rows)
    predecessors: dict[int, tuple[int, str]] = {start: (start, "")}
    queue = deque([start])
    while queue:
        cell = queue.popleft()
        row, column = divmod(cell, size)
        if rows[row][column] == "G":
            return _path_to(predecessors, cell)
        for name, (down, right) in STEPS.items():
            neighbour = (row + down) * size + column + right
            is_inside = 0 <= row + down < size and 0 <= column + right < size
            if is_inside and neighbour not in predecessors and rows[row + down][column + right] != "H":
                predecessors[neighbour] = (cell, name)
                queue.append(neighbour)
    return []


def _path_to(predecessors: dict[int, tuple[int, str]], cell: int) -> list[str]:
    names = []
    while predecessors[cell][1]:
        cell, name = predecessors[cell]
        names.append(name)
    return names[::-1]
