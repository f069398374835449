"""2048 on small boards, with the target as a parameter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from envs.episodes.guide import Guide
from envs.games.game import Game, check_range, parse_directions
from envs.games.tiles import EMPTY, MOVES, Player, add_tile, apply_move, is_over
from envs.procedural import LazyTasks, digest
from envs.types import Message, Outcome, Task, assistant, final_text

SIDES = range(2, 6)
TARGETS = tuple(2**rank for rank in range(3, 12))
LENGTHS = {"train": 2000, "val": 100, "test": 100}
MAX_SEEDS = 100  # seeds after which a target counts as out of reach


class Twenty48(Game):
    r"""Slide equal tiles together until a tile has the target's value.

    Observation: the board, one row per line: `.` an empty cell, `a` a tile of 2, `b` of 4, `c` of 8, up to `k` of 2048:
    `a.b\n..c`. After a reply that names no move `ldru?` and the board. In full style the
    instructions first, and the tiles as numbers.
    Action: `l`, `d`, `r` or `u`, or the word, `left`; longer replies are read as `envs.games.game.parse_directions`
    says. All tiles slide as far as they can; two equal tiles that meet merge into one of twice the value; then a tile
    is added, a 2 or, one time in ten, a 4. A move that changes nothing, several moves or none are invalid and cost a
    turn.
    Reward: 1 when a tile has the target's value, else 0; its only named part is `win`.
    Metrics: `tile`, the value of the largest tile.
    Episode end: terminated by the win, or when no move changes the board; truncated after `max_turns`, by default
    three quarters of `target` plus the number of cells.
    Arguments: `target`, a power of 2 from 8 to 2048; `rows` and `columns`, 2 to 5 (the original is target=2048, rows=4,
    columns=4).
    Splits: a task is a seed, which determines together with the board which tile is added where. Only seeds are used
    with which the oracle wins, although it does not know the coming tiles.
    State: the board.
    Source and licence: generated; the game is by Gabriele Cirulli (2014, MIT), the oracle's weights by Robert Xiao.
    Version history: v0.
    """

    def __init__(
        self, *, target: int = 32, rows: int = 2, columns: int = 3, max_turns: int | None = None, **kwargs: Any
    ) -> None:
        if target not in TARGETS:
            raise ValueError(f"target {target!r} is not one of {', '.join(map(str, TARGETS))}")
        self.target = int(target)
        self.rows, self.columns = check_range("rows", rows, SIDES), check_range("columns", columns, SIDES)
        self.patience = self.target * 3 // 4 + self.rows * self.columns
        super().__init__(max_turns=self.patience if max_turns is None else max_turns, **kwargs)

    @property
    def rules(self) -> str:
        """Rules of the game as a system message, in style "v1"."""
        return (
            "This is 2048 with letters: a is 2, b is 4, c is 8 and so on, . is empty. Equal tiles that slide together "
            f"merge into the next letter. Make {_letter(self.target)} ({self.target}). Reply with one letter a turn: "
            "l left, d down, r right, u up."
        )

    def guide(self) -> Guide:
        """Say how tiles slide and merge, which tile is wanted, and what the board shows."""
        moves = {"left": "l", "down": "d", "right": "r", "up": "u"}
        possible = (word for word, move in moves.items() if apply_move(self.board, self.columns, move) != self.board)
        return Guide(
            goal=(
                f"Play 2048 on a board of {self.rows} rows and {self.columns} columns: make a tile of {self.target}. "
                f"You succeed when a tile has the value {self.target}. If no move is possible any more, you have "
                "failed."
            ),
            rules=(
                "Each reply slides all tiles in one direction as far as they can go. Two tiles of the same value that "
                "meet in this direction merge into one tile of twice the value; a tile merges at most once per reply. "
                "After each move that changes the board, a new tile appears in an empty cell: a 2, or a 4 one time in "
                "ten. A move that slides no tile is not possible."
            ),
            legend={EMPTY: "an empty cell", "2": "or a larger number: a tile of this value"},
            reading="For example, sliding the row `2 . 2` to the left gives `4 . .` before the new tile appears.",
            reply="Reply with one move: left, down, right or up. Only one move counts per reply.",
            noun="move",
            example=next(possible, "left"),
            ending=f"The episode ends when there is a tile of {self.target}, or when no move is possible.",
            invalid="A reply that names no possible move, or several moves, changes nothing and uses up a reply.",
            heading="The board:",
        )

    def drawing(self) -> str:
        """Return the tiles of the board as numbers."""
        return " ".join(map(_number, self.board))

    def tasks(self, split: str) -> Sequence[Task]:
        """Return tasks with different seeds of the new tiles."""
        return LazyTasks(split, LENGTHS[split], lambda index: self._task(split, index))

    def opening(self) -> str:
        """Set up a board with two tiles."""
        self.seed = int(self.task.metadata["seed"])
        self.board = self._first_board(self.seed)
        return self._render_board()

    def state(self) -> str:
        """Return the board in one line."""
        return self.board_text.replace("\n", "/")

    def reply(self, action: Message) -> Outcome:
        """Slide the tiles in the direction that the reply names, then add a tile."""
        move = parse_directions(final_text(action))
        is_move = move is not None and len(move) == 1
        board = apply_move(self.board, self.columns, move) if move and is_move else self.board
        if board == self.board:
            fault = "No tile can move in this direction." if is_move else "Your reply does not name exactly one move."
            short = self.board_text if is_move else f"ldru?\n{self.board_text}"
            return self._outcome(self.correction(fault, self._render_board(), short=short), valid=False)
        self.board = board
        is_won = _letter(self.target) in board
        if not is_won:
            self.board = add_tile(board, self.seed)
        is_lost = not is_won and is_over(self.board, self.columns)
        board = self._render_board()
        if is_won or is_lost:
            board = f"{f'You have made the tile {self.target}' if is_won else 'No tile can move any more'}.\n{board}"
        return self._outcome(board, is_won=is_won, is_lost=is_lost)

    def oracle(self) -> Iterator[Message]:
        """Yield the moves of `envs.games.tiles.Player`, which does not know the coming tiles."""
        while True:
            yield assistant(_best_move(self.board, self.columns))

    def random(self, rng: np.random.Generator) -> Message:
        """Return one of the four moves, each equally likely."""
        return assistant(MOVES[int(rng.integers(4))])

    def attacks(self) -> Sequence[str]:
        """Return replies that must earn 0, among them all moves in one reply, and a board with the target."""
        goal_tiles = _letter(self.target) * 3
        return (
            *super().attacks(),
            MOVES,
            "left or right",
            "\n".join([goal_tiles, goal_tiles]),
            goal_tiles,
            "l " * 500,
            str(self.target),
        )

    def _outcome(self, observation: str, **result: bool) -> Outcome:
        return self.outcome(observation, **result, tile=2 << ord(max(self.board)) - ord("a"))  # type: ignore[arg-type]

    def _render_board(self) -> str:
        self.board_text = "\n".join(
            [self.board[at : at + self.columns] for at in range(0, len(self.board), self.columns)]
        )
        if self.style != "full":
            return self.board_text
        width = len(str(self.target))
        return "\n".join(" ".join(_number(cell).rjust(width) for cell in row) for row in self.board_text.split("\n"))

    def _first_board(self, seed: int) -> str:
        return add_tile(add_tile(EMPTY * (self.rows * self.columns), seed), seed)

    def _task(self, split: str, index: int) -> Task:
        key = f"games/2048-v0:{self.target}:{self.rows}:{self.columns}"
        for attempt in range(MAX_SEEDS):
            seed = digest(key, split, index, attempt)
            if self._is_winnable(seed):
                return Task("", metadata={"seed": seed})
        raise ValueError(f"target={self.target} is out of reach with rows={self.rows}, columns={self.columns}")

    def _is_winnable(self, seed: int) -> bool:
        """Whether the oracle reaches the target in time with this seed."""
        board, goal = self._first_board(seed), _letter(self.target)
        for _ in range(self.patience):
            board = apply_move(board, self.columns, _best_move(board, self.columns))
            if goal in board:
                return True
            board = add_tile(board, seed)
            if is_over(board, self.columns):
                return False
        return False


def _number(cell: str) -> str:
    """Return the number of a cell's tile, or the sign of an empty cell."""
    return EMPTY if cell == EMPTY else str(2 << ord(cell) - ord("a"))


def _letter(value: int) -> str:
    return chr(ord("a") + value.bit_length() - 2)


@lru_cache(maxsize=1 << 16)
def _best_move(board: str, columns: int) -> str:
    return Player(columns).move(board)
