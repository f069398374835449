"""Cross a frozen lake: Gymnasium's FrozenLake-v1 on a fresh map for every task, in words."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from envs.games.verbalised import Verbalised
from envs.procedural import drawn
from envs.types import Message, Task, assistant

SIZES = range(3, 11)
HOLES = 0.3  # with fewer, one walk learnt by heart crosses too many maps
STEPS = {"left": (0, -1), "down": (1, 0), "right": (0, 1), "up": (-1, 0)}  # in the order of the action numbers


class FrozenLake(Verbalised):
    r"""Walk from the top left to the bottom right corner without falling into a hole.

    Observation: the map, one row a line: `P` the player, `#` a hole, `.` ice, `G` the goal. `P.#.\n....\n.#..\n...G`
    Action: `left`, `down`, `right` or `up`; longer replies are read as `Verbalised` says.
    Reward: 1 on reaching the goal, else 0.
    Episode end: terminated by the goal or a hole; truncated after `max_turns`, by default three times `size`.
    Arguments: `size`, the side of the square map; `slippery`: two moves in three go to the side, by the luck of the
    episode's seed, so that nobody, the oracle included, wins every time.
    Splits: a map stands in one split only. Every map has a path of at most three times `size` moves, less two.
    State: the map with the player on it.
    Source and licence: gymnasium's toy_text (MIT), own maps. Version history: v0.
    """

    game = "FrozenLake-v1"
    actions = tuple(STEPS)
    rules = "You are P on a frozen lake. Reach G, avoid the holes #. Reply with one word a turn: left, down, right, up."

    def __init__(self, *, size: int = 4, slippery: bool = False, max_turns: int | None = None, **limits: Any) -> None:
        if size not in SIZES:
            raise ValueError(f"size {size!r} is outside {SIZES[0]}..{SIZES[-1]}")
        super().__init__(max_turns=3 * size if max_turns is None else max_turns, **limits)
        self.size, self.slippery = int(size), bool(slippery)

    def tasks(self, split: str) -> Sequence[Task]:
        """Random maps; "val" and "test" hold each once."""
        held_out = 5 if self.size == 3 else 200
        length = 10_000 if split == "train" else held_out
        key = f"games/FrozenLake-v0:{self.size}"
        return drawn(split, length, self._draw, key=key, same=lambda task: task.metadata["map"])

    def arguments(self) -> dict[str, Any]:
        """The map and whether it is slippery."""
        return {"desc": self._map, "is_slippery": self.slippery}

    def luck(self) -> int:
        """The episode's own luck, since the map is the task's."""
        return int(self.np_random.integers(2**31))

    def describe(self, observation: Any) -> str:
        """The map with the player on it."""
        cells = list("".join(self._map).translate(str.maketrans("SFH", "..#")))
        cells[int(observation)] = "P"
        return "\n".join("".join(cells[i : i + self.size]) for i in range(0, len(cells), self.size))

    def state(self) -> str:
        """The map with the player on it; on a hole or the goal the episode is over."""
        return self.describe(self.observation).replace("\n", "/")

    def oracle(self) -> Iterator[Message]:
        """The next move of a shortest path from wherever the player is."""
        while True:
            yield assistant(shortest(self._map, int(self.observation))[0])

    @property
    def _map(self) -> list[str]:
        return self.task.metadata["map"].split("/")

    def _draw(self, rng: np.random.Generator) -> Task:
        while True:
            cells = np.where(rng.random((self.size, self.size)) < HOLES, "H", "F")
            cells[0, 0], cells[-1, -1] = "S", "G"
            rows = ["".join(row) for row in cells]
            if 0 < len(shortest(rows, 0)) <= 3 * self.size - 2:
                return Task("", metadata={"map": "/".join(rows)})


def shortest(rows: Sequence[str], start: int) -> list[str]:
    """The moves of a shortest path from cell `start` to the goal, by breadth-first search; [] where there is none."""
    size = len(rows)
    came: dict[int, tuple[int, str]] = {start: (start, "")}
    queue = deque([start])
    while queue:
        cell = queue.popleft()
        row, column = divmod(cell, size)
        if rows[row][column] == "G":
            return _path(came, cell)
        for name, (down, right) in STEPS.items():
            there = (row + down) * size + column + right
            inside = 0 <= row + down < size and 0 <= column + right < size
            if inside and there not in came and rows[row + down][column + right] != "H":
                came[there] = (cell, name)
                queue.append(there)
    return []


def _path(came: dict[int, tuple[int, str]], cell: int) -> list[str]:
    names = []
    while came[cell][1]:
        cell, name = came[cell]
        names.append(name)
    return names[::-1]
