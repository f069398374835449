"""Connect four for two, on boards of any size."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from envs.episodes.guide import Guide, listing
from envs.games.game import check_range
from envs.grading.doubts import clauses_around, denies
from envs.grading.lines import last_line
from envs.multi.board_search import best_moves
from envs.multi.tic_tac_toe import check_depth
from envs.multi.turn_game import INVALID_RULE, TurnGame
from envs.procedural import enumerated
from envs.types import Message, Task, assistant, final_text

ORACLE_DEPTH = 4  # moves that the oracle looks ahead on boards that are too large for an exact search
EXACT_CELLS = 16  # cells of the largest board on which it searches to the end
SIZES = range(3, 10)
NUMBER = re.compile(r"[-+]?\d+(?:[.,]\d+)*")
NUMBER_WORDS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
COLUMN_WORD = re.compile(rf"\bcolumn ({'|'.join(NUMBER_WORDS)})\b")
OTHER_NUMBERS = re.compile(r"\brow \d|\bconnect \d|\b(?:\d|one|two|three|four)[ -]in[ -]a[ -](?:row|line)\b")
Grid = tuple[str, ...]  # one text per column, from the bottom: "x" of the player to move, "o" of the other


class ConnectFour(TurnGame):
    r"""Connect four: pieces fall to the bottom of a column; four of one's own in a line win.

    Observation: one user message with the board, top row first, X for `player_0` and O for `player_1`, and the
    columns that are not full.
    Action: the number of a column, `1` for the leftmost.
    Reward: 1 for a win, -1 for a loss, 0 for a draw, at the end of the game.
    Episode end: terminated by a win or a full board, or by two replies in a row without a column, which lose.
    Arguments: `rows`, `columns`: size of the board; `connect`: pieces in a line that win.
    Seats: `player_0` begins, `player_1`; they move in turn. Opponents: `minimax:depth=4` besides the common ones.
    Splits: every game begins with the empty board; tasks differ in their number only, which stands for a seed.
    State: the board. The oracle plays perfectly on boards of at most 16 cells, else it looks four moves ahead.
    Source and licence: traditional; own code. Version history: v0.
    """

    players = {"minimax": "minimax"}  # noqa: RUF012

    def __init__(
        self, *, rows: int = 6, columns: int = 7, connect: int = 4, max_turns: int | None = None, **limits: Any
    ) -> None:
        self.rows = check_range("rows", rows, SIZES)
        self.columns = check_range("columns", columns, SIZES)
        self.connect = check_range("connect", connect, range(3, max(rows, columns) + 1))
        super().__init__(max_turns=rows * columns // 2 + 2 if max_turns is None else max_turns, **limits)

    def tasks(self, split: str) -> Sequence[Task]:
        """Return numbered games."""
        return enumerated(split, 3000, lambda i: Task("", metadata={"game": i}), key="multi/ConnectFour-v0")

    def begin(self) -> None:
        """Empty the board."""
        self.grid: Grid = ("",) * self.columns
        self.mover = self.seats[0]

    def legal(self) -> Mapping[str, int]:
        """Return the columns that are not full."""
        return {str(i + 1): i for i, column in enumerate(self.grid) if len(column) < self.rows}

    def play(self, move: int) -> None:
        """Drop a piece of the mover."""
        piece = "xo"[self.seats.index(self.mover)]
        self.grid = (*self.grid[:move], self.grid[move] + piece, *self.grid[move + 1 :])
        self.mover = self.others(self.mover)[0]

    def read_move(self, message: Message) -> str | None:
        """Return the only whole number of the last line, if it is a column that is not full."""
        number = self._named_number(message)
        return number if number in self.legal() else None

    def fault(self, message: Message) -> str:
        """Say that the column which the reply names is full, or does not exist."""
        number, free = self._named_number(message), f"The columns that are not full are {listing(self.legal())}."
        if not number:
            return f"Your reply does not name exactly one column. {free}"
        is_column = number in map(str, range(1, self.columns + 1))
        return f"{f'Column {number} is full' if is_column else f'There is no column {number}'}. {free}"

    def result(self, seat: str, gain: float) -> str:
        """Show the last board and say who has won."""
        has_line = is_lost(self._mover_grid(), connect=self.connect)
        who = "You have" if gain > 0 else "The other player has"
        line = f"{who} {self.connect} in a line.\n" if has_line else ""
        return f"{self._draw()}\n{line}{super().result(seat, gain)}"

    @staticmethod
    def _named_number(message: Message) -> str:
        """The only number on the last line; "" for none or several. "row 1" and "4 in a row" name no column."""
        line = OTHER_NUMBERS.sub(" ", last_line(final_text(message)).lower())
        line = COLUMN_WORD.sub(lambda match: f"column {1 + NUMBER_WORDS.index(match[1])}", line)
        numbers = {*NUMBER.findall(line)}
        number = numbers.pop() if len(numbers) == 1 else ""
        return "" if number and denies(clauses_around(*line.split(number, 1))) else number

    def payoff(self) -> float | None:
        """Return 1, -1 or 0 when the game is over."""
        if is_lost(self._mover_grid(), connect=self.connect):
            return -1.0 if self.mover == self.seats[0] else 1.0
        return None if self.legal() else 0.0

    def describe(self, seat: str) -> str:
        """Draw the board, the top row first."""
        return self._draw() + (f"\nColumns that are not full: {', '.join(self.legal())}." * (self.style == "full"))

    def _draw(self) -> str:
        """The rows of the board; in full style with gaps, below the numbers of the columns."""
        is_full = self.style == "full"
        gap = " " if is_full else ""
        lines = [gap.join(self._cell(column, row) for column in self.grid) for row in reversed(range(self.rows))]
        numbers = [gap.join(str(i + 1) for i in range(self.columns))] * is_full
        return "\n".join([*numbers, *lines])

    def guide(self, seat: str) -> Guide:
        """Say what the board shows and how to win."""
        own, other = ("X", "O") if seat == self.seats[0] else ("O", "X")
        begins = "You move first." if seat == self.seats[0] else "The other player moves first."
        return Guide(
            goal=(
                f"You play connect four against another player. Your pieces are {own}, those of the other are {other}. "
                f"{begins} You succeed if {self.connect} of your pieces stand side by side in a line (across, down or "
                f"diagonally) before the other player has such a line. If the board is full, the game is a draw."
            ),
            rules=(
                f"The board has {self.columns} columns, numbered from 1 on the left, and {self.rows} rows. A piece "
                "falls to the lowest free cell of its column. The top row is drawn first."
            ),
            legend={"X": "a piece of the player who began", "O": "a piece of the second player", ".": "a free cell"},
            reading="The numbers above the board are those of the columns.",
            reply="Reply with the number of one column that is not full.",
            noun="column",
            example=([*self.legal()] or ["1"])[len(self.legal()) // 2],
            ending="The game ends when somebody has such a line or the board is full.",
            invalid=INVALID_RULE.format(noun="column", forfeit="loses the game"),
            heading="The board when you are to move for the first time:",
        )

    def drawing(self, seat: str) -> str:
        """Return the signs of the board."""
        return " ".join(self._cell(column, row) for column in self.grid for row in range(self.rows))

    def state(self) -> str:
        """Return the columns from the bottom, in one line."""
        return "/".join(self.grid)

    def oracle(self, seat: str) -> Message:
        """Return the first of the best moves."""
        cells = self.rows * self.columns
        return assistant(str(self._best(cells if cells <= EXACT_CELLS else ORACLE_DEPTH)[0] + 1))

    def minimax(self, seat: str, rng: np.random.Generator, *, depth: int = 4) -> Message:
        """Return one of the best moves after a search of `depth` moves, drawn from `rng`."""
        best = self._best(check_depth(depth))
        return assistant(str(best[int(rng.integers(len(best)))] + 1))

    def _best(self, depth: int) -> list[int]:
        legal = partial(moves, rows=self.rows)
        return best_moves(self._mover_grid(), legal, partial(is_lost, connect=self.connect), depth)[1]

    def _mover_grid(self) -> Grid:
        return self.grid if self.mover == self.seats[0] else swap(self.grid)

    @staticmethod
    def _cell(column: str, row: int) -> str:
        return column[row].upper() if row < len(column) else "."


def swap(grid: Grid) -> Grid:
    """Return the board as the other player sees it."""
    return tuple(column.translate(_OTHER) for column in grid)


def moves(grid: Grid, *, rows: int) -> Iterator[tuple[int, Grid]]:
    """Yield the columns that are not full, middle ones first, each with the board as the other player then sees it."""
    middle = (len(grid) - 1) / 2
    other = swap(grid)
    for i in sorted(range(len(grid)), key=lambda column: abs(column - middle)):
        if len(grid[i]) < rows:
            yield i, (*other[:i], other[i] + "o", *other[i + 1 :])


def is_lost(grid: Grid, *, connect: int) -> bool:
    """Whether the player who has just moved, whose pieces are "o", has `connect` in a line."""
    height = max(map(len, grid)) + 1  # a row of zeros above keeps lines from running over the edge
    bits = sum(
        1 << i * height + row for i, column in enumerate(grid) for row, piece in enumerate(column) if piece == "o"
    )
    for step in (1, height - 1, height, height + 1):
        line = bits
        for number in range(1, connect):
            line &= bits >> number * step
        if line:
            return True
    return False


_OTHER = str.maketrans("xo", "ox")
