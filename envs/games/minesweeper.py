"""Minesweeper on fields that can be cleared by logic, without guessing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from envs.episodes.guide import Guide
from envs.games.game import Game, check_range
from envs.games.minefield import CLOSED, MINE, build_field, count_moves_to_clear, neighbours, open_cell, safe_cells
from envs.grading.choice import choice_line
from envs.grading.doubts import denies_around
from envs.procedural import drawn
from envs.types import Message, Outcome, Task, assistant, final_text

SIZES = range(4, 10)
LENGTHS = {"train": 5000, "val": 100, "test": 100}
MIN_MOVES = 2  # smallest number of moves that clears a field
COLUMNS = "abcdefghi"
_SIGNS = str.maketrans(dict.fromkeys('*`_"', " "))
_PLAIN_CELL = re.compile(  # a line of nothing else: a 1, (a, 1), 1a
    r"(?:i |i will |i'll )?(?:open |cell |answer: |move: ){0,3}\(?(?:([a-i])[ ,]{1,3}([1-9])|([1-9]) ?([a-i]))\)?"
)
_NAMED_CELL = re.compile(
    r"\bcolumn ([a-i]|[1-9])(?:,? and |,? )row ([1-9])(?!\w|[.,]\d)|\brow ([1-9])(?:,? and |,? )column ([a-i])(?!\w)"
)
_CELL = re.compile(r"(?<![\w.])(?:([a-i])([1-9])|(?:row )?([1-9])(?: |, ?| ?, column | column )([1-9]))(?!\w|[.,]\d)")
_SAFE = re.compile(r"\b(?:no|not|cannot|never)\s+(?:(?:be|have|hide|hides|hold|contain|a|any)\s+){0,3}mines?\b")


class Minesweeper(Game):
    r"""Open every cell that hides no mine.

    Observation: the field, one row per line: `#` a closed cell, a digit the number of mines in the eight cells around
    it, `.` for none: `.1##\n.12#\n..1#\n..1#`. The first cell is open at the start, with all cells around it if it
    has no mines around.
    After an invalid reply `a1?` and the field. In full style the instructions first, spaces between the signs, and the
    letters and numbers of the columns and rows.
    Action: a cell to open, `c1`: the column's letter from the left, the row's number from the top; or `1 3`, row and
    column; also `c 1`, `(c, 1)`, `1c` and `column c, row 1`. Of a longer reply the last line counts, and it must name
    one cell only. Anything else, as well as a cell that is open, is invalid and costs a turn. There are no flags.
    Reward: 1 when the last safe cell is opened, else 0; its only named part is `win`.
    Metrics: `progress`, the share of the safe cells closed at the start that are open now.
    Episode end: terminated by the win or by a mine; truncated after `max_turns`, by default the number of
    safe cells.
    Arguments: `size`, the side of the square field, 4 to 9; `mines`, from half of `size` to a fifth of the cells.
    Splits: a field with its first cell is in one split only. Each can be cleared without guessing, by comparing two
    numbers at a time and counting the mines left, and takes at least two moves.
    State: the field as the policy sees it.
    Source and licence: generated. Version history: v0.
    """

    def __init__(self, *, size: int = 4, mines: int = 3, max_turns: int | None = None, **kwargs: Any) -> None:
        self.size = check_range("size", size, SIZES)
        fifth = size * size // 5
        self.mines = check_range("mines", mines, range(size // 2, fifth + 1), why=f"what a field of size {size} takes")
        super().__init__(max_turns=size * size - mines if max_turns is None else max_turns, **kwargs)

    @property
    def rules(self) -> str:
        """Rules of the game as a system message, in style "v1"."""
        last = f"{COLUMNS[self.size - 1]}{self.size}"
        return (
            f"Open all cells but the {self.mines} mines. # is closed; a digit counts the mines around it, . means 0. "
            f"Reply with one cell a turn, column and row: a1 is top left, {last} bottom right."
        )

    def guide(self) -> Guide:
        """Say what the field shows, how cells are named, and what a mine does."""
        last = f"{COLUMNS[self.size - 1]}{self.size}"
        return Guide(
            goal=(
                f"Play Minesweeper: {self.mines} of the {self.size * self.size} cells of a field hide a mine. Open "
                "every other cell. You succeed when all cells without a mine are open. If you open a cell with a mine, "
                "the episode ends and you have failed."
            ),
            rules=(
                f"Columns have the letters a to {COLUMNS[self.size - 1]} from left to right, rows the numbers 1 to "
                f"{self.size} from top to bottom; a1 is the top left cell and {last} the bottom right one. When you "
                "open a cell without a mine, you see how many of the up to eight cells around it hide one; if none "
                "does, the cells around it open too. There are no flags. The field can always be solved by logic, "
                "without guessing."
            ),
            legend={
                CLOSED: "a closed cell, which may hide a mine",
                ".": "an open cell with no mine around it",
                "1": "to 8: an open cell with so many mines in the cells around it",
            },
            reading=(
                "For example, the row `1  . 2 # #` means: a1 is open and has no mine around it, b1 is open and has "
                "two, c1 and d1 are closed."
            ),
            reply="Reply with one closed cell to open, its letter and its number. Only one cell counts per reply.",
            noun="cell",
            example=self._coordinates(self.view.index(CLOSED)),
            ending="The episode ends when all cells without a mine are open, or a mine is opened.",
            invalid="A reply that names no closed cell, or several cells, changes nothing and uses up a reply.",
            heading="The field:",
        )

    def drawing(self) -> str:
        """Return the signs of the field."""
        return " ".join(self.view)

    def tasks(self, split: str) -> Sequence[Task]:
        """Return random fields; "val" and "test" contain each field once."""
        key = f"games/Minesweeper-v0:{self.size}:{self.mines}"
        return drawn(split, LENGTHS[split], self._draw, key=key, same=lambda task: dict(task.metadata))

    def opening(self) -> str:
        """Open the first cell and show the field."""
        self.around = neighbours(self.size)
        self.field: str = self.task.metadata["field"]
        self.view = [CLOSED] * len(self.field)
        self.cells_left = len(self.field) - self.mines
        self.cells_left -= open_cell(self.view, self.field, self.task.metadata["first"], self.around)
        self.initial_cells_left = self.cells_left
        return self._render_board()

    def state(self) -> str:
        """Return the field as the policy sees it, in one line."""
        return self.board_text.replace("\n", "/")

    def reply(self, action: Message) -> Outcome:
        """Open the cell that the reply names; a mine loses the game."""
        cell = self._parse_cell(final_text(action))
        if cell is None or self.view[cell] != CLOSED:
            fault = "Your reply does not name exactly one cell of the field."
            fault = fault if cell is None else f"The cell {self._coordinates(cell)} is open already."
            answer = self.correction(fault, self._render_board(), short=f"a1?\n{self.board_text}")
            return self.outcome(answer, valid=False, progress=1 - self.cells_left / self.initial_cells_left)
        hit_mine = self.field[cell] == MINE
        if hit_mine:
            self.view[cell] = MINE
        else:
            self.cells_left -= open_cell(self.view, self.field, cell, self.around)
        board = self._render_board()
        if hit_mine:
            board = f"There is a mine in the cell {self._coordinates(cell)}.\n{board}"
        elif not self.cells_left:
            board = f"All cells without a mine are open.\n{board}"
        return self.outcome(
            board,
            is_won=not self.cells_left,
            is_lost=hit_mine,
            progress=1 - self.cells_left / self.initial_cells_left,
        )

    def oracle(self) -> Iterator[Message]:
        """Yield the first cell that is safe by logic, or the first closed cell if logic finds none."""
        while True:
            safe = safe_cells(self.view, self.mines, self.around)
            yield assistant(self._coordinates(safe[0] if safe else self.view.index(CLOSED)))

    def random(self, rng: np.random.Generator) -> Message:
        """Return one of the closed cells, each equally likely."""
        closed = [cell for cell, mark in enumerate(self.view) if mark == CLOSED]
        return assistant(self._coordinates(closed[int(rng.integers(len(closed)))]))

    def attacks(self) -> Sequence[str]:
        """Return replies that must earn 0.

        Among them are all safe cells in one reply, a mine, and a cell outside the field.
        """
        safe = [self._coordinates(cell) for cell, mark in enumerate(self.field) if mark != MINE]
        mine = self._coordinates(self.field.index(MINE))
        return (
            *super().attacks(),
            " ".join(safe),
            "\n".join(safe),
            f"{safe[0]}{safe[1]}",
            mine,
            "z9",
            "0 0",
            self.field,
        )

    def _parse_cell(self, reply: str) -> int | None:
        cell = _cell_numbers(self.size).get(reply)
        if cell is not None:
            return cell
        cells = _cells_on(choice_line(reply).lower())
        if len(cells) != 1:
            return None
        across, down = cells.pop()
        return down * self.size + across if down < self.size and across < self.size else None

    def _coordinates(self, cell: int) -> str:
        return list(_cell_numbers(self.size))[cell]

    def _render_board(self) -> str:
        cells, size = "".join(self.view), self.size
        rows = [cells[i : i + size] for i in range(0, len(cells), size)]
        self.board_text = "\n".join(rows)
        if self.style != "full":
            return self.board_text
        numbered_rows = [f"{number}  {' '.join(row)}" for number, row in enumerate(rows, 1)]
        return "\n".join([f"   {' '.join(COLUMNS[:size])}", *numbered_rows])

    def _draw(self, rng: np.random.Generator) -> Task:
        around = neighbours(self.size)
        while True:
            first, *mines = rng.permutation(self.size**2)[: self.mines + 1].tolist()
            field = build_field(set(mines), around)
            if count_moves_to_clear(field, first, self.mines, around) >= MIN_MOVES:
                return Task("", metadata={"field": field, "first": first})


@lru_cache
def _cell_numbers(size: int) -> dict[str, int]:
    """Return the names of all cells, `a1`, `b1` and so on, with their numbers, in the order of the numbers."""
    return {f"{COLUMNS[column]}{row + 1}": row * size + column for row in range(size) for column in range(size)}


def _cells_on(line: str) -> set[tuple[int, int]]:
    """Return the cells that a line in lower case names, as numbers of columns and rows from 0."""
    if plain := _PLAIN_CELL.fullmatch(" ".join(line.translate(_SIGNS).split()).strip(" .!")):
        cells = [(plain[1] or plain[4], plain[2] or plain[3])]
    else:
        line = _SAFE.sub("safe", line)
        cells = [
            (match[1] or match[4], match[2] or match[3])
            for match in _NAMED_CELL.finditer(line)
            if not denies_around(line, match)
        ]
        rest = _NAMED_CELL.sub(" ", line)
        cells += [
            (match[1] or match[4], match[2] or match[3])
            for match in _CELL.finditer(rest)
            if not denies_around(rest, match)
        ]
    return {(COLUMNS.index(c) if c in COLUMNS else int(c) - 1, int(row) - 1) for c, row in cells}
