"""Single-player games of the package TextArena, played as our own."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import permutations
from typing import Any, NamedTuple

import numpy as np

from envs.games.game import Game
from envs.games.planning import shortest
from envs.procedural import enumerated
from envs.suggestions import unknown_message
from envs.types import Message, Outcome, Task, assistant, final_text

SEEDS = 1_000  # in which a game's different beginnings are looked for
GLOBAL_LUCK: tuple[tuple[Callable[[], Any], Callable[[Any], None]], ...] = (
    (random.getstate, random.setstate),
    (np.random.get_state, np.random.set_state),
)
STEPS = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}

_alone = threading.RLock()  # between saving the global generators and putting them back, nobody else may play


class Solver(NamedTuple):
    """What we know of a game: the best reply, any reply, and what tells one state from another.

    Each reads TextArena's environment. `attack` is a reply that names every answer at once.
    """

    best: Callable[[Any], str]
    chance: Callable[[Any, np.random.Generator], str]
    key: Callable[[Any], str]
    attack: str


class TextArena(Game):
    """Win a game of TextArena that can be won every time.

    Observation: TextArena's own words: the game's prompt first, then what the game says after each reply.
    Action: as the prompt says, a move in square brackets: `[7]`, `[1 2 3 4]`, `[down]`.
    Reward: 1 for TextArena's full reward at the end of the game, else 0; its only named part is `win`. Its partial
    rewards, which idle players get too, are the metric.
    Metrics: `points`, TextArena's own reward at the end.
    Episode end: terminated when TextArena says so, which it does after two invalid replies in a row; truncated after
    `max_turns`, at most and by default as many as `GAMES` says.
    Arguments: `game`, one of the ids of `GAMES`: games with an oracle that need no download.
    Splits: a task is a seed, the first that begins a game in its way; each way to begin stands in one split only.
    State: what the player has found out or where they are.
    Source and licence: the package textarena (MIT), which must be installed. It draws from Python's global generator;
    its state is saved before and put back after every call. Version history: v0.
    """

    def __init__(self, *, game: str = "Mastermind-v0", max_turns: int | None = None, **own: Any) -> None:
        if game not in GAMES:
            raise ValueError(unknown_message("game", game, GAMES, of="TextArena"))
        self.game = game
        most, _ = GAMES[game]
        if max_turns is not None and max_turns > most:
            raise ValueError(f"max_turns {max_turns} is more than the {most} turns of {game}")
        super().__init__(max_turns=most if max_turns is None else max_turns, **own)
        self.inner: Any = None

    @property
    def solver(self) -> Solver:
        """What we know of the game."""
        return GAMES[self.game][1]

    @property
    def rules(self) -> str:
        """How to write a move; the rest is in the game's prompt."""
        return "Reply with one move in square brackets, as the game asks for it."

    def tasks(self, split: str) -> Sequence[Task]:
        """The seeds of different beginnings. Raises ImportError where textarena is not installed."""
        seeds = beginnings(self.game)
        return enumerated(
            split, len(seeds), lambda i: Task("", metadata={"seed": seeds[i]}), key=f"TextArena:{self.game}"
        )

    def opening(self) -> str:
        """Begin the game."""
        self.inner = begun(self.game, self.task.metadata["seed"])
        return self._heard()

    def state(self) -> str:
        """What the solver tells states by, and whether one more invalid reply ends the game."""
        return f"{self.task.id} {self.solver.key(self.inner)}{'!' * self.inner.state.error_count}"

    def reply(self, action: Message) -> Outcome:
        """Pass the reply on."""
        with contained():
            over, _ = self.inner.step(final_text(action))
        state = self.inner.state
        valid = not (state.error_count or state.game_info[0]["invalid_move"])
        if not over:
            return self.outcome(self._heard(), valid=valid)
        points = float(state.rewards[0])
        won = points == 1.0 and valid
        return self.outcome("", won=won, lost=not won, valid=valid, points=points)

    def oracle(self) -> Iterator[Message]:
        """The game's solver."""
        while True:
            yield assistant(self.solver.best(self.inner))

    def random(self, rng: np.random.Generator) -> Message:
        """Any move of the right form."""
        return assistant(self.solver.chance(self.inner, rng))

    def attacks(self) -> Sequence[str]:
        """Among others: every answer in one reply."""
        return (*super().attacks(), self.solver.attack, "[win]", "[]", "[quit]")

    def close(self) -> None:
        """Forget the game."""
        self.inner = None

    def _heard(self) -> str:
        """What the game has said since the last time, without the player's own words."""
        _, said = self.inner.get_observation()
        return "\n".join(words for sender, words, _ in said if sender == -1)


@contextmanager
def contained() -> Iterator[None]:
    """Whatever is drawn inside from the process's global generators, their state afterwards is as before."""
    with _alone:
        before = [save() for save, _ in GLOBAL_LUCK]
        try:
            yield
        finally:
            for (_, restore), state in zip(GLOBAL_LUCK, before, strict=True):
                restore(state)


def begun(game: str, seed: int) -> Any:
    """A game without TextArena's wrappers, begun with this seed."""
    with contained():
        made = _package().make(f"{game}-raw")
        made.reset(num_players=1, seed=seed)
    return made


@lru_cache
def beginnings(game: str) -> tuple[int, ...]:
    """A seed for each way in which the game begins, among the first `SEEDS`."""
    found: dict[str, int] = {}
    for seed in range(SEEDS):
        found.setdefault(repr(begun(game, seed).state.game_state), seed)
    return tuple(found.values())


def _package() -> Any:
    try:
        with contained():  # importing it draws, too
            import textarena
    except ImportError as error:
        raise ImportError(f"games/TextArena-v0 needs textarena: pip install 'turnwise-rl[textarena]' ({error})") from None
    return textarena


# GuessTheNumber


def _interval(game: Any) -> tuple[int, int]:
    """The numbers still possible."""
    low, high = game.min_number, game.max_number
    for guess, hint in game.state.game_state["guess_history"]:
        low, high = (max(low, guess + 1), high) if hint == "higher" else (low, min(high, guess - 1))
    return low, high


GUESS = Solver(
    best=lambda game: f"[{sum(_interval(game)) // 2}]",
    chance=lambda game, rng: f"[{rng.integers(game.min_number, game.max_number + 1)}]",
    key=lambda game: "{}..{}".format(*_interval(game)),
    attack=" ".join(f"[{number}]" for number in range(100, 0, -1)),
)


# Mastermind


def _consistent(game: Any) -> str:
    """The first code that fits all answers so far."""
    board = game.state.game_state
    for code in permutations(range(1, board["num_numbers"] + 1), board["code_length"]):
        if all(_pegs(code, turn["guess"]) == (turn["black"], turn["white"]) for turn in board["history"]):
            return _bracketed(code)
    raise RuntimeError("no code fits the answers of Mastermind")


def _pegs(code: Sequence[int], guess: Sequence[int]) -> tuple[int, int]:
    """Black and white pegs, where no digit occurs twice."""
    black = sum(one == other for one, other in zip(code, guess, strict=True))
    return black, len({*code} & {*guess}) - black


def _bracketed(code: Sequence[int]) -> str:
    return f"[{' '.join(map(str, code))}]"


def _any_code(game: Any, rng: np.random.Generator) -> str:
    board = game.state.game_state
    return _bracketed((rng.permutation(board["num_numbers"])[: board["code_length"]] + 1).tolist())


CODE = Solver(
    best=_consistent,
    chance=_any_code,
    key=lambda game: " ".join(
        sorted(
            f"{_bracketed(turn['guess'])}{turn['black']}{turn['white']}" for turn in game.state.game_state["history"]
        )
    ),
    attack="[1 2 3 4 5 6]",
)


# FrozenLake


def _next_step(game: Any) -> str:
    """The first step of a shortest path around the holes."""
    board = game.state.game_state
    grid, goal = board["grid"], board["goal_pos"]

    def moves(cell: tuple[int, int]) -> Iterator[tuple[str, tuple[int, int]]]:
        for name, (down, right) in STEPS.items():
            row, column = cell[0] + down, cell[1] + right
            if 0 <= row < len(grid) and 0 <= column < len(grid) and grid[row][column] != "H":
                yield name, (row, column)

    return f"[{shortest(tuple(board['player_pos']), moves, tuple(goal).__eq__)[0][0]}]"


LAKE = Solver(
    best=_next_step,
    chance=lambda game, rng: f"[{[*STEPS][rng.integers(4)]}]",
    key=lambda game: "{},{}".format(*game.state.game_state["player_pos"]),
    attack="[up down left right]",
)

GAMES = {  # turns, fewer than TextArena gives, so that chance seldom wins; solver
    "GuessTheNumber-v0": (6, GUESS),
    "GuessTheNumber-v0-hardcore": (7, GUESS),
    "Mastermind-v0": (10, CODE),
    "Mastermind-v0-hard": (12, CODE),
    "FrozenLake-v0": (12, LAKE),
    "FrozenLake-v0-random": (12, LAKE),
    "FrozenLake-v0-hardcore": (15, LAKE),
}
