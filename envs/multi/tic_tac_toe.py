"""Tic-tac-toe for two."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache

import numpy as np

from envs.episodes.guide import Guide, listing
from envs.grading.choice import find_choice
from envs.multi.board_search import best_moves
from envs.multi.turn_game import INVALID_RULE, TurnGame
from envs.procedural import enumerated
from envs.types import Message, Task, assistant, final_text

CELLS = tuple(f"{column}{row}" for row in "123" for column in "abc")
LINES = ((0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6))
_ROWS = {"1": ("top", "upper"), "2": ("middle", "center", "centre"), "3": ("bottom", "lower")}
_COLUMNS = {"a": ("left",), "b": ("middle", "center", "centre"), "c": ("right",)}
SYNONYMS = {  # "top left", "upper-left corner", "1a"
    f"{row}{gap}{column}": f"{letter}{digit}"
    for digit, rows in _ROWS.items()
    for letter, columns in _COLUMNS.items()
    for row in (*rows, digit)
    for column in (*columns, letter)
    for gap in (("",) if (row, column) == (digit, letter) else (" ", "-"))
    if (row == digit) == (column == letter)
} | dict.fromkeys(("center", "centre"), "b2")
Board = tuple[str, ...]  # nine cells, row by row: "x" of the player to move, "o" of the other, "." empty


class TicTacToe(TurnGame):
    r"""Tic-tac-toe: three of one's own marks in a row, column or diagonal win.

    Observation: one user message with the board, X for `player_0` and O for `player_1`, such as `X..\n.O.\n...`.
    Action: the name of a free cell, `a1` to `c3`: column a, b or c from the left, row 1, 2 or 3 from the top.
    Reward: 1 for a win, -1 for a loss, 0 for a draw, at the end of the game.
    Episode end: terminated by a win or a full board, or by two replies in a row without a free cell, which lose.
    Seats: `player_0` begins, `player_1`; they move in turn. Opponents: `minimax:depth=9` besides the common ones.
    Splits: every game begins with the empty board; tasks differ in their number only, which stands for a seed.
    State: the board. Known value: a draw, if both play perfectly.
    Source and licence: traditional; own code. Version history: v0.
    """

    max_turns = 10
    players = {"minimax": "minimax"}  # noqa: RUF012

    def tasks(self, split: str) -> Sequence[Task]:
        """Return numbered games."""
        return enumerated(split, 3000, lambda i: Task("", metadata={"game": i}), key="multi/TicTacToe-v0")

    def begin(self) -> None:
        """Empty the board."""
        self.board: Board = (".",) * 9
        self.mover = self.seats[0]

    def legal(self) -> Mapping[str, int]:
        """Return the free cells."""
        return {CELLS[i]: i for i in range(9) if self.board[i] == "."}

    def read_move(self, message: Message) -> str | None:
        """Return the only cell that the last line names, if it is free."""
        cell = find_choice(final_text(message), {cell: cell for cell in CELLS}, SYNONYMS)
        return cell if cell in self.legal() else None

    def fault(self, message: Message) -> str:
        """Say whose mark stands in the cell that the reply names, if it names one."""
        cell = find_choice(final_text(message), {cell: cell for cell in CELLS}, SYNONYMS)
        if cell is None:
            return f"Your reply does not name exactly one cell. The free cells are {listing(self.legal())}."
        mark = self.board[CELLS.index(cell)]
        whose = "your own" if mark == "xo"[self.seats.index(self.mover)] else "the other player's"
        return f"The cell {cell} is occupied by {whose} {mark.upper()}. The free cells are {listing(self.legal())}."

    def result(self, seat: str, gain: float) -> str:
        """Show the last board and say who has won."""
        has_line = is_lost(self._mover_board())
        line = f"{'You have' if gain > 0 else 'The other player has'} three in a line.\n" if has_line else ""
        return f"{self._draw()}\n{line}{super().result(seat, gain)}"

    def play(self, move: int) -> None:
        """Put the mover's mark into a cell."""
        self.board = tuple("xo"[self.seats.index(self.mover)] if i == move else c for i, c in enumerate(self.board))
        self.mover = self.others(self.mover)[0]

    def payoff(self) -> float | None:
        """Return 1, -1 or 0 when the game is over."""
        if is_lost(self._mover_board()):
            return -1.0 if self.mover == self.seats[0] else 1.0
        return None if "." in self.board else 0.0

    def describe(self, seat: str) -> str:
        """Draw the board."""
        if self.style != "full":
            return "\n".join(self._rows())
        return f"{self._draw()}\nFree cells: {', '.join(self.legal())}."

    def _rows(self) -> list[str]:
        return ["".join(self.board[i : i + 3]).upper() for i in (0, 3, 6)]

    def _draw(self) -> str:
        """The board with the names of its columns and rows."""
        drawn_rows = "\n".join(f"{number} {' '.join(row)}" for number, row in enumerate(self._rows(), 1))
        return f"  a b c\n{drawn_rows}"

    def guide(self, seat: str) -> Guide:
        """Say what the board shows and how to win."""
        own, other = ("X", "O") if seat == self.seats[0] else ("O", "X")
        begins = "You move first." if seat == self.seats[0] else "The other player moves first."
        return Guide(
            goal=(
                f"You play tic-tac-toe against another player. Your marks are {own}, those of the other are {other}. "
                f"{begins} You succeed if three of your marks stand in one row, one column or one diagonal before the "
                "other player has three. If the board is full and nobody has three in a line, the game is a draw."
            ),
            rules="The board has three columns, a, b and c from left to right, and three rows, 1 to 3 from the top.",
            legend={"X": "a mark of the player who began", "O": "a mark of the second player", ".": "a free cell"},
            reading="For example, `c1` is the cell in the top right corner.",
            reply="Reply with the name of one free cell, such as b2.",
            noun="cell",
            example=next(iter(self.legal()), CELLS[0]),
            ending="The game ends when somebody has three in a line or the board is full.",
            invalid=INVALID_RULE.format(noun="cell", forfeit="loses the game"),
            heading="The board when you are to move for the first time:",
        )

    def drawing(self, seat: str) -> str:
        """Return the signs of the board."""
        return " ".join(self.board).upper()

    def state(self) -> str:
        """Return the board in one line."""
        return "".join(self.board)

    def oracle(self, seat: str) -> Message:
        """Return the first perfect move."""
        return assistant(CELLS[best_cells(self._mover_board(), 9)[0]])

    def minimax(self, seat: str, rng: np.random.Generator, *, depth: int = 9) -> Message:
        """Return one of the best moves after a search of `depth` moves, drawn from `rng`; 9 is perfect play."""
        best = best_cells(self._mover_board(), check_depth(depth))
        return assistant(CELLS[best[int(rng.integers(len(best)))]])

    def _mover_board(self) -> Board:
        return self.board if self.mover == self.seats[0] else swap(self.board)


@cache
def best_cells(board: Board, depth: int) -> list[int]:
    """Return the best moves after a search of `depth` moves. There are few thousand boards, so results are kept."""
    return best_moves(board, moves, is_lost, depth)[1]


def check_depth(depth: int) -> int:
    """Return `depth`. Raises ValueError for one below 1."""
    if depth < 1:
        raise ValueError(f"depth {depth} must be at least 1")
    return depth


def swap(board: Board) -> Board:
    """Return the board as the other player sees it."""
    return tuple({"x": "o", "o": "x"}.get(cell, cell) for cell in board)


def moves(board: Board) -> Iterator[tuple[int, Board]]:
    """Yield the free cells, each with the board after the move as the other player sees it."""
    for i, cell in enumerate(board):
        if cell == ".":
            yield i, swap((*board[:i], "x", *board[i + 1 :]))


def is_lost(board: Board) -> bool:
    """Whether the player who has just moved, whose marks are "o", has three in a line."""
    return any(board[a] == board[b] == board[c] == "o" for a, b, c in LINES)
