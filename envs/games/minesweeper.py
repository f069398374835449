"""Minesweeper on fields that logic alone can clear."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from envs.games.game import Game, checked
from envs.games.minefield import CLOSED, MINE, field, moves_to_clear, neighbours, open_up, safe_cells
from envs.grading.choice import last_line
from envs.procedural import drawn
from envs.types import Message, Outcome, Task, assistant, final_text

SIZES = range(4, 10)
LENGTHS = {"train": 5000, "val": 100, "test": 100}
LEAST = 2  # moves that a field takes at least
COLUMNS = "abcdefghi"
_CELL = re.compile(r"(?<![\w.])(?:([a-i])([1-9])|(?:row )?([1-9])(?: |, ?| ?, column | column )([1-9]))(?!\w|[.,]\d)")


class Minesweeper(Game):
    r"""Open every cell that hides no mine.

    Observation: the field, one row a line: `#` a closed cell, a digit the mines in the eight cells around it, `.` for
    none: `.1##\n.12#\n..1#\n..1#`. The first cell is open at the start, with all around it if there is no mine.
    After an invalid reply `a1?` and the field.
    Action: a cell to open, `c1`: the column's letter from the left, the row's number from the top; or `1 3`, row and
    column. Of a longer reply the last line counts, and it must name one cell only. Anything else, as well as a cell
    that is open, is invalid and costs a turn. There are no flags.
    Reward: 1 when the last safe cell is opened, else 0; its only named part is `win`.
    Metrics: `progress`, the share of the safe cells closed at the start that are open now.
    Episode end: terminated by the win or by a mine; truncated after `max_turns`, by default as many as safe cells.
    Arguments: `size`, the side of the square field, 4 to 9; `mines`, from half of `size` to a fifth of the cells;
    `explain`: the rules open the episode.
    Splits: a field with its first cell stands in one split only. Each can be cleared without guessing, by comparing
    any two numbers at a time and counting the mines left, and takes two moves or more.
    State: the field as it is seen.
    Source and licence: generated. Version history: v0.
    """

    def __init__(self, *, size: int = 4, mines: int = 3, max_turns: int | None = None, **own: Any) -> None:
        self.size = checked("size", size, SIZES)
        fifth = size * size // 5
        self.mines = checked("mines", mines, range(size // 2, fifth + 1), why=f"what a field of size {size} takes")
        super().__init__(max_turns=size * size - mines if max_turns is None else max_turns, **own)

    @property
    def rules(self) -> str:
        """The rules."""
        last = f"{COLUMNS[self.size - 1]}{self.size}"
        return (
            f"Open all cells but the {self.mines} mines. # is closed; a digit counts the mines around it, . means 0. "
            f"Reply with one cell a turn, column and row: a1 is top left, {last} bottom right."
        )

    def tasks(self, split: str) -> Sequence[Task]:
        """Random fields; "val" and "test" hold each once."""
        key = f"games/Minesweeper-v0:{self.size}:{self.mines}"
        return drawn(split, LENGTHS[split], self._draw, key=key, same=lambda task: dict(task.metadata))

    def opening(self) -> str:
        """Open the first cell."""
        self.around = neighbours(self.size)
        self.whole: str = self.task.metadata["field"]
        self.seen = [CLOSED] * len(self.whole)
        self.left = len(self.whole) - self.mines
        self.left -= open_up(self.seen, self.whole, self.task.metadata["first"], self.around)
        self.wanted = self.left
        return self._show()

    def state(self) -> str:
        """The field as it is seen."""
        return self.shown.replace("\n", "/")

    def reply(self, action: Message) -> Outcome:
        """Open the cell that the reply names."""
        cell = self._named(final_text(action))
        if cell is None or self.seen[cell] != CLOSED:
            return self.outcome(f"a1?\n{self.shown}", valid=False, progress=1 - self.left / self.wanted)
        lost = self.whole[cell] == MINE
        if lost:
            self.seen[cell] = MINE
        else:
            self.left -= open_up(self.seen, self.whole, cell, self.around)
        return self.outcome(self._show(), won=not self.left, lost=lost, progress=1 - self.left / self.wanted)

    def oracle(self) -> Iterator[Message]:
        """The first cell that what is seen shows to be safe; the first closed one where nothing does."""
        while True:
            safe = safe_cells(self.seen, self.mines, self.around)
            yield assistant(self._coordinates(safe[0] if safe else self.seen.index(CLOSED)))

    def random(self, rng: np.random.Generator) -> Message:
        """Any closed cell."""
        closed = [cell for cell, mark in enumerate(self.seen) if mark == CLOSED]
        return assistant(self._coordinates(closed[int(rng.integers(len(closed)))]))

    def attacks(self) -> Sequence[str]:
        """Among others: all safe cells in one reply, a mine, a cell outside."""
        safe = [self._coordinates(cell) for cell, mark in enumerate(self.whole) if mark != MINE]
        mine = self._coordinates(self.whole.index(MINE))
        return (
            *super().attacks(),
            " ".join(safe),
            "\n".join(safe),
            f"{safe[0]}{safe[1]}",
            mine,
            "z9",
            "0 0",
            self.whole,
        )

    def _named(self, reply: str) -> int | None:
        known = _cells(self.size).get(reply)
        if known is not None:
            return known
        found = set(_CELL.findall(last_line(reply).lower()))
        if len(found) != 1:
            return None
        letter, number, row, column = found.pop()
        down = int(number or row) - 1
        across = COLUMNS.index(letter) if letter else int(column) - 1
        return down * self.size + across if down < self.size and across < self.size else None

    def _coordinates(self, cell: int) -> str:
        return list(_cells(self.size))[cell]

    def _show(self) -> str:
        cells, size = "".join(self.seen), self.size
        self.shown = "\n".join([cells[i : i + size] for i in range(0, len(cells), size)])
        return self.shown

    def _draw(self, rng: np.random.Generator) -> Task:
        around = neighbours(self.size)
        while True:
            first, *mines = rng.permutation(self.size**2)[: self.mines + 1].tolist()
            whole = field(set(mines), around)
            if moves_to_clear(whole, first, self.mines, around) >= LEAST:
                return Task("", metadata={"field": whole, "first": first})


@lru_cache
def _cells(size: int) -> dict[str, int]:
    """The cells' names, `a1`, `b1` and so on, with their numbers, in order."""
    return {f"{COLUMNS[column]}{row + 1}": row * size + column for row in range(size) for column in range(size)}
