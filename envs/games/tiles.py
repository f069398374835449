"""The board of 2048 and a player. A board is a string, row by row: `.` is empty, `a` a tile of 2, `b` of 4, ..."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from zlib import crc32

EMPTY = "."
MOVES = "ldru"
TILES_PER_FOUR = 10  # one of this many new tiles is a 4
MULTIPLIER, MASK = 0x9E3779B97F4A7C15, (1 << 64) - 1  # 2**64 divided by the golden ratio, as in Fibonacci hashing
LOOKAHEAD_EMPTY_CELLS = 3  # with at most so many empty cells the player averages over the next tile
LOST_VALUE = -1e6  # value of a board that no move changes, below that of any other board


@lru_cache(maxsize=1 << 16)
def slide_row(row: str) -> str:
    """Slide the tiles of a row to its beginning; equal neighbours merge, each tile once."""
    tiles = row.replace(EMPTY, "")
    row_text, at = "", 0
    while at < len(tiles):
        merges = tiles[at : at + 2] == tiles[at] * 2
        row_text += chr(ord(tiles[at]) + 1) if merges else tiles[at]
        at += 1 + merges
    return row_text + EMPTY * (len(row) - len(row_text))


@lru_cache(maxsize=1 << 16)
def slide_row_back(row: str) -> str:
    """Slide the tiles of a row to its end; equal neighbours merge, each tile once."""
    return slide_row(row[::-1])[::-1]


@lru_cache(maxsize=1 << 16)
def apply_move(board: str, columns: int, move: str) -> str:
    """Return the board after a move, before a new tile is added; an equal board if the move changes nothing."""
    slide = slide_row if move in "lu" else slide_row_back
    if move in "lr":
        return "".join([slide(board[at : at + columns]) for at in range(0, len(board), columns)])
    whole = "".join([slide(board[at::columns]) for at in range(columns)])
    rows = len(board) // columns
    return "".join([whole[at::rows] for at in range(rows)])


def is_over(board: str, columns: int) -> bool:
    """Whether no move changes the board."""
    if EMPTY in board:
        return False
    has_equal_rows = any(one == other for one, other in zip(board, board[columns:], strict=False))
    return not has_equal_rows and all(board[at] != board[at + 1] for at in range(len(board) - 1) if (at + 1) % columns)


def add_tile(board: str, seed: int) -> str:
    """Return the board with a new tile; its cell and value depend on the board and the seed only."""
    number = (crc32(board.encode()) ^ seed) * MULTIPLIER & MASK
    number = (
        number ^ number >> 29
    ) * MULTIPLIER & MASK  # a checksum alone would give boards that are alike tiles that are alike
    number, chance = divmod(number >> 32, TILES_PER_FOUR)
    free = [cell for cell, tile in enumerate(board) if tile == EMPTY]
    cell = free[number % len(free)]
    return board[:cell] + ("a" if chance else "b") + board[cell + 1 :]


@dataclass(frozen=True)
class Player:
    """A player of 2048 that looks one move ahead, on crowded boards also one tile and one more move.

    The value of a board grows with its empty cells, its pairs of equal neighbours and the monotonicity of its lines
    (with the weights of nneonneo's 2048 player, 2014). Of equally good moves it plays the first in `MOVES`.

    Attributes:
        columns: Number of columns of the boards.
    """

    columns: int

    def move(self, board: str) -> str:
        """Return the letter of the best move; "l" if no move changes the board."""
        return max(self._move_values(board), key=lambda choice: choice[1], default=("l", 0.0))[0]

    def _move_values(self, board: str) -> Iterator[tuple[str, float]]:
        for move in MOVES:
            next_board = apply_move(board, self.columns, move)
            if next_board != board:
                yield (
                    move,
                    self._expected_value(next_board)
                    if next_board.count(EMPTY) <= LOOKAHEAD_EMPTY_CELLS
                    else self._board_value(next_board),
                )

    def _expected_value(self, board: str) -> float:
        """Return the expected value of a board over the next tile, each followed by the best move."""
        total = 0.0
        free = [cell for cell, tile in enumerate(board) if tile == EMPTY]
        for cell in free:
            for tile, weight in (("a", TILES_PER_FOUR - 1), ("b", 1)):
                next_board = board[:cell] + tile + board[cell + 1 :]
                total += weight * self._best_value(next_board)
        return total / (TILES_PER_FOUR * len(free))

    def _best_value(self, board: str) -> float:
        boards = (apply_move(board, self.columns, move) for move in MOVES)
        return max((self._board_value(next_board) for next_board in boards if next_board != board), default=LOST_VALUE)

    def _board_value(self, board: str) -> float:
        columns = self.columns
        across = sum(_line_value(board[at : at + columns]) for at in range(0, len(board), columns))
        return across + sum(_line_value(board[at::columns]) for at in range(columns))


@lru_cache(maxsize=1 << 16)
def _line_value(line: str) -> float:
    ranks = [0 if tile == EMPTY else ord(tile) - ord("a") + 1 for tile in line]
    pairs = list(pairwise(ranks))
    falls = sum(one**4 - other**4 for one, other in pairs if one > other)
    rises = sum(other**4 - one**4 for one, other in pairs if other > one)
    merges = sum(one == other > 0 for one, other in pairs)
    return 270.0 * ranks.count(0) + 700 * merges - 47 * min(falls, rises) - 11 * sum(rank**3.5 for rank in ranks)
