"""The board of 2048 and a player of it. A board is a text, row by row: `.` empty, `a` a tile of 2, `b` of 4, ..."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from zlib import crc32

EMPTY = "."
MOVES = "ldru"
FOURS = 10  # one new tile in so many is a 4
ODD, MASK = 0x9E3779B97F4A7C15, (1 << 64) - 1  # 2**64 divided by the golden ratio, as in Fibonacci hashing
CROWDED = 3  # empty cells up to which the player weighs the tiles that may come
LOST = -1e6  # the worth of a board that no move changes, below that of any other


@lru_cache(maxsize=1 << 16)
def slid(row: str) -> str:
    """A row after all tiles went to its beginning; equal neighbours merge, each tile once."""
    tiles = row.replace(EMPTY, "")
    out, at = "", 0
    while at < len(tiles):
        merges = tiles[at : at + 2] == tiles[at] * 2
        out += chr(ord(tiles[at]) + 1) if merges else tiles[at]
        at += 1 + merges
    return out + EMPTY * (len(row) - len(out))


@lru_cache(maxsize=1 << 16)
def slid_back(row: str) -> str:
    """A row after all tiles went to its end."""
    return slid(row[::-1])[::-1]


@lru_cache(maxsize=1 << 16)
def moved(board: str, columns: int, move: str) -> str:
    """The board after a move, before a new tile comes; the same board where the move changes nothing."""
    slide = slid if move in "lu" else slid_back
    if move in "lr":
        return "".join([slide(board[at : at + columns]) for at in range(0, len(board), columns)])
    whole = "".join([slide(board[at::columns]) for at in range(columns)])
    rows = len(board) // columns
    return "".join([whole[at::rows] for at in range(rows)])


def is_over(board: str, columns: int) -> bool:
    """Whether no move changes the board."""
    if EMPTY in board:
        return False
    beside = any(one == other for one, other in zip(board, board[columns:], strict=False))
    return not beside and all(board[at] != board[at + 1] for at in range(len(board) - 1) if (at + 1) % columns)


def with_tile(board: str, seed: int) -> str:
    """The board with a new tile; where and which depends on the board and the seed alone."""
    luck = (crc32(board.encode()) ^ seed) * ODD & MASK
    luck = (luck ^ luck >> 29) * ODD & MASK  # a checksum alone would give boards that are alike tiles that are alike
    luck, chance = divmod(luck >> 32, FOURS)
    free = [cell for cell, tile in enumerate(board) if tile == EMPTY]
    cell = free[luck % len(free)]
    return board[:cell] + ("a" if chance else "b") + board[cell + 1 :]


@dataclass(frozen=True)
class Player:
    """Plays a board of that many columns: one move ahead where there is room, and where not, one tile further.

    A board is worth the more, the more cells are empty, the more neighbours are equal and the less the tiles of a line
    go up and down (the weights are those of nneonneo's 2048 player, 2014). Equally good moves: the first of `MOVES`.
    """

    columns: int

    def move(self, board: str) -> str:
        """The letter of the best move; "l" where none changes the board."""
        return max(self._next(board), key=lambda choice: choice[1], default=("l", 0.0))[0]

    def _next(self, board: str) -> Iterator[tuple[str, float]]:
        for move in MOVES:
            there = moved(board, self.columns, move)
            if there != board:
                yield move, self._expected(there) if there.count(EMPTY) <= CROWDED else self._worth(there)

    def _expected(self, board: str) -> float:
        """The mean worth over the tiles that may come to a board, after the best move each."""
        total = 0.0
        free = [cell for cell, tile in enumerate(board) if tile == EMPTY]
        for cell in free:
            for tile, weight in (("a", FOURS - 1), ("b", 1)):
                after = board[:cell] + tile + board[cell + 1 :]
                total += weight * self._best(after)
        return total / (FOURS * len(free))

    def _best(self, board: str) -> float:
        found = (moved(board, self.columns, move) for move in MOVES)
        return max((self._worth(there) for there in found if there != board), default=LOST)

    def _worth(self, board: str) -> float:
        columns = self.columns
        across = sum(_line_worth(board[at : at + columns]) for at in range(0, len(board), columns))
        return across + sum(_line_worth(board[at::columns]) for at in range(columns))


@lru_cache(maxsize=1 << 16)
def _line_worth(line: str) -> float:
    ranks = [0 if tile == EMPTY else ord(tile) - ord("a") + 1 for tile in line]
    pairs = list(pairwise(ranks))
    falls = sum(one**4 - other**4 for one, other in pairs if one > other)
    rises = sum(other**4 - one**4 for one, other in pairs if other > one)
    merges = sum(one == other > 0 for one, other in pairs)
    return 270.0 * ranks.count(0) + 700 * merges - 47 * min(falls, rises) - 11 * sum(rank**3.5 for rank in ranks)
