"""2048 on small boards with small targets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from envs.games.game import Game, checked, directions
from envs.games.tiles import EMPTY, MOVES, Player, is_over, moved, with_tile
from envs.procedural import LazyTasks, digest
from envs.types import Message, Outcome, Task, assistant, final_text

SIDES = range(2, 6)
TARGETS = tuple(2**rank for rank in range(3, 12))
LENGTHS = {"train": 2000, "val": 100, "test": 100}
DRAWS = 100  # seeds after which a target counts as out of reach


class Twenty48(Game):
    r"""Slide equal tiles together until one of the target's value is there.

    Observation: the board, one row a line: `.` an empty cell, `a` a tile of 2, `b` of 4, `c` of 8, up to `k` of 2048:
    `a.b\n..c`. After a reply that names no move `ldru?` and the board.
    Action: `l`, `d`, `r` or `u`, also written out, `left`; longer replies are read as `envs.games.game.directions`
    says. All tiles slide as far as they can; two equal ones that meet become one of twice the value; then a tile comes,
    a 2 or, one time in ten, a 4. A move that changes nothing, several moves or none are invalid and cost a turn.
    Reward: 1 when a tile has the target's value, else 0; its only named part is `win`.
    Metrics: `tile`, the value of the largest tile.
    Episode end: terminated by the win, or when no move changes the board; truncated after `max_turns`, by default
    three quarters of `target` plus the number of cells.
    Arguments: `target`, a power of 2 from 8 to 2048; `rows` and `columns`, 2 to 5 (the original is target=2048, rows=4,
    columns=4); `explain`: the rules open the episode.
    Splits: a task is the luck of its tiles: which tile comes where depends on it and on the board. Each task is one
    that the oracle wins, although it does not know what will come.
    State: the board.
    Source and licence: generated; the game is by Gabriele Cirulli (2014, MIT), the oracle's weights by Robert Xiao.
    Version history: v0.
    """

    def __init__(
        self, *, target: int = 32, rows: int = 2, columns: int = 3, max_turns: int | None = None, **own: Any
    ) -> None:
        if target not in TARGETS:
            raise ValueError(f"target {target!r} is not one of {', '.join(map(str, TARGETS))}")
        self.target = int(target)
        self.rows, self.columns = checked("rows", rows, SIDES), checked("columns", columns, SIDES)
        self.patience = self.target * 3 // 4 + self.rows * self.columns
        super().__init__(max_turns=self.patience if max_turns is None else max_turns, **own)

    @property
    def rules(self) -> str:
        """The rules."""
        return (
            "This is 2048 with letters: a is 2, b is 4, c is 8 and so on, . is empty. Equal tiles that slide together "
            f"merge into the next letter. Make {_letter(self.target)} ({self.target}). Reply with one letter a turn: "
            "l left, d down, r right, u up."
        )

    def tasks(self, split: str) -> Sequence[Task]:
        """Seeds of the tiles' luck."""
        return LazyTasks(split, LENGTHS[split], lambda index: self._task(split, index))

    def opening(self) -> str:
        """Two tiles."""
        self.seed = int(self.task.metadata["seed"])
        self.board = self._first(self.seed)
        return self._show()

    def state(self) -> str:
        """The board."""
        return self.shown.replace("\n", "/")

    def reply(self, action: Message) -> Outcome:
        """Slide the tiles."""
        move = directions(final_text(action))
        named = move is not None and len(move) == 1
        board = moved(self.board, self.columns, move) if move and named else self.board
        if board == self.board:
            return self._outcome(self.shown if named else f"ldru?\n{self.shown}", valid=False)
        self.board = board
        won = _letter(self.target) in board
        if not won:
            self.board = with_tile(board, self.seed)
        return self._outcome(self._show(), won=won, lost=not won and is_over(self.board, self.columns))

    def oracle(self) -> Iterator[Message]:
        """What `Player` does with the board; it does not know which tiles will come."""
        while True:
            yield assistant(_best(self.board, self.columns))

    def random(self, rng: np.random.Generator) -> Message:
        """Any move."""
        return assistant(MOVES[int(rng.integers(4))])

    def attacks(self) -> Sequence[str]:
        """Among others: all moves in one reply, and the board as it should be."""
        won = _letter(self.target) * 3
        return (*super().attacks(), MOVES, "left or right", "\n".join([won, won]), won, "l " * 500, str(self.target))

    def _outcome(self, shown: str, **end: bool) -> Outcome:
        return self.outcome(shown, **end, tile=2 << ord(max(self.board)) - ord("a"))  # type: ignore[arg-type]

    def _show(self) -> str:
        self.shown = "\n".join([self.board[at : at + self.columns] for at in range(0, len(self.board), self.columns)])
        return self.shown

    def _first(self, seed: int) -> str:
        return with_tile(with_tile(EMPTY * (self.rows * self.columns), seed), seed)

    def _task(self, split: str, index: int) -> Task:
        key = f"games/2048-v0:{self.target}:{self.rows}:{self.columns}"
        for attempt in range(DRAWS):
            seed = digest(key, split, index, attempt)
            if self._is_winnable(seed):
                return Task("", metadata={"seed": seed})
        raise ValueError(f"target={self.target} is out of reach with rows={self.rows}, columns={self.columns}")

    def _is_winnable(self, seed: int) -> bool:
        """Whether the oracle wins with this luck in time."""
        board, goal = self._first(seed), _letter(self.target)
        for _ in range(self.patience):
            board = moved(board, self.columns, _best(board, self.columns))
            if goal in board:
                return True
            board = with_tile(board, seed)
            if is_over(board, self.columns):
                return False
        return False


def _letter(value: int) -> str:
    return chr(ord("a") + value.bit_length() - 2)


@lru_cache(maxsize=1 << 16)
def _best(board: str, columns: int) -> str:
    return Player(columns).move(board)
