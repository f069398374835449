"""Single-player games of the package TextArena, with oracles, random replies and attacks."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import permutations
from typing import Any, NamedTuple

import numpy as np

from envs.episodes.guide import Guide
from envs.games.game import Game
from envs.games.planning import shortest_plan
from envs.grading.doubts import denies_mark
from envs.grading.lines import MAX_REPLY, last_line
from envs.procedural import enumerated
from envs.suggestions import unknown_message
from envs.types import Message, Outcome, Task, assistant, final_text
from sandboxes.extras import install_command

MAX_SEEDS = 1_000  # seeds that are searched for different initial states of a game
GLOBAL_GENERATORS: tuple[tuple[Callable[[], Any], Callable[[Any], None]], ...] = (
    (random.getstate, random.setstate),
    (np.random.get_state, np.random.set_state),
)
STEPS = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}

_generators_lock = threading.RLock()  # held while the global generators are changed


class Solver(NamedTuple):
    """How to play a game of TextArena. The functions read TextArena's environment.

    Attributes:
        best_reply: Returns the oracle's reply.
        random_reply: Returns a random move in the right form.
        key: Returns a text that identifies the state.
        attack: A reply that names all answers at once.
    """

    best_reply: Callable[[Any], str]
    random_reply: Callable[[Any, np.random.Generator], str]
    key: Callable[[Any], str]
    attack: str


class TextArena(Game):
    """Win a game of TextArena that can be won every time.

    Observation: TextArena's own text: the game's prompt first, then its messages after each reply; in full style the
    instructions first. A limit of turns that the prompt states is `max_turns`.
    Action: as the prompt says, a move in square brackets: `[7]`, `[1 2 3 4]`, `[down]`. If the last line of a reply has
    brackets, TextArena gets this line only.
    Reward: 1 for TextArena's full reward at the end of the game, else 0; its only named part is `win`. Its partial
    rewards, which a player gets even without a move, are only the metric.
    Metrics: `points`, TextArena's own reward at the end.
    Episode end: terminated when TextArena says so, which it does after two invalid replies in a row; truncated after
    `max_turns`, at most and by default the number in `GAMES`.
    Arguments: `game`, one of the ids of `GAMES`: games with an oracle that need no download.
    Splits: a task is the first seed that gives an initial state; each initial state is in one split only.
    State: what the answers so far reveal, or the player's cell.
    Source and licence: the package textarena (MIT), which must be installed. It draws from Python's global generator,
    whose state is saved before and restored after every call. Version history: v0.
    """

    def __init__(self, *, game: str = "Mastermind-v0", max_turns: int | None = None, **kwargs: Any) -> None:
        if game not in GAMES:
            raise ValueError(unknown_message("game", game, GAMES, of="TextArena"))
        self.game = game
        turn_limit, _ = GAMES[game]
        if max_turns is not None and max_turns > turn_limit:
            raise ValueError(f"max_turns {max_turns} is more than the {turn_limit} turns of {game}")
        super().__init__(max_turns=turn_limit if max_turns is None else max_turns, **kwargs)
        self.inner: Any = None

    @property
    def solver(self) -> Solver:
        """The solver of the game."""
        return GAMES[self.game][1]

    @property
    def rules(self) -> str:
        """How to write a move, in style "v1"; the game's own prompt states the rules."""
        return "Reply with one move in square brackets, as the game asks for it."

    def guide(self) -> Guide:
        """Say how a move is written; the game's own prompt states the rules."""
        return Guide(
            goal="Play a game for one player and win it. You succeed if you win completely.",
            rules="The rules of the game follow below, in its own words.",
            reply="Reply with one move in square brackets, as the rules of the game say. Only one move per reply.",
            noun="move",
            example=self.solver.random_reply(self.inner, np.random.default_rng(0)),
            ending="The episode ends when the game ends.",
            invalid="Two replies in a row that the game cannot play lose the game.",
            heading="The game:",
        )

    def tasks(self, split: str) -> Sequence[Task]:
        """Return one task per initial state of the game. Raises ImportError if textarena is not installed."""
        seeds = distinct_seeds(self.game)
        return enumerated(
            split, len(seeds), lambda i: Task("", metadata={"seed": seeds[i]}), key=f"TextArena:{self.game}"
        )

    def opening(self) -> str:
        """Start the game and return its prompt."""
        self.inner = start_game(self.game, self.task.metadata["seed"], self.max_turns)
        return self._new_text()

    def state(self) -> str:
        """Return the solver's key of the state, and whether one more invalid reply ends the game."""
        return f"{self.task.id} {self.solver.key(self.inner)}{'!' * self.inner.state.error_count}"

    def reply(self, action: Message) -> Outcome:
        """Pass the reply to TextArena and translate its result."""
        with preserve_global_generators():
            done, _ = self.inner.step(_move_text(final_text(action)))
        state = self.inner.state
        valid = not (state.error_count or state.game_info[0]["invalid_move"])
        if not done:
            return self.outcome(self._new_text(), valid=valid)
        points = float(state.rewards[0])
        is_won = points == 1.0 and valid
        news = self._new_text() if self.style == "full" else ""
        return self.outcome(news, is_won=is_won, is_lost=not is_won, valid=valid, points=points)

    def oracle(self) -> Iterator[Message]:
        """Yield the replies of the game's solver."""
        while True:
            yield assistant(self.solver.best_reply(self.inner))

    def random(self, rng: np.random.Generator) -> Message:
        """Return a random move in the right form."""
        return assistant(self.solver.random_reply(self.inner, rng))

    def attacks(self) -> Sequence[str]:
        """Return replies that must earn 0, among them all answers in one reply."""
        return (*super().attacks(), self.solver.attack, "[win]", "[]", "[quit]")

    def close(self) -> None:
        """Drop TextArena's environment."""
        self.inner = None

    def _new_text(self) -> str:
        """Return the game's messages since the last call, without the player's own."""
        _, message = self.inner.get_observation()
        return "\n".join(words for sender, words, _ in message if sender == -1)


def _move_text(reply: str) -> str:
    """The part of a reply that TextArena gets: the last line, or all of a short one without a bracket there.

    A move that the words beside it deny loses its brackets, so that the game cannot read it.
    """
    line = last_line(reply)
    move = line if "[" in line or len(reply) > MAX_REPLY else reply
    before, _, rest = move.partition("[")
    is_denied = bool(rest) and denies_mark(before, rest.partition("]")[2])
    return move.replace("[", " ").replace("]", " ") if is_denied else move


@contextmanager
def preserve_global_generators() -> Iterator[None]:
    """Restore the state of the process's global random generators at the end of the block; one thread at a time."""
    with _generators_lock:
        before = [save() for save, _ in GLOBAL_GENERATORS]
        try:
            yield
        finally:
            for (_, restore), state in zip(GLOBAL_GENERATORS, before, strict=True):
                restore(state)


def start_game(game: str, seed: int, max_turns: int | None = None) -> Any:
    """Create a game without TextArena's wrappers and reset it with `seed`. Raises ImportError without textarena.

    With `max_turns` the prompt of a game that states a limit of turns states this one. The game's own limit stays as it
    is: the environment truncates an episode, and the game does not end it before.
    """
    with preserve_global_generators():
        env = _import_textarena().make(f"{game}-raw")
        own_limit = getattr(env, "max_turns", None)  # only of the games whose prompt states it
        if own_limit is not None and max_turns is not None:
            env.max_turns = max_turns
        env.reset(num_players=1, seed=seed)
        if own_limit is not None:
            env.max_turns = env.state.max_turns = own_limit
    return env


@lru_cache
def distinct_seeds(game: str) -> tuple[int, ...]:
    """Return the first seed of each initial state that occurs with the seeds below `MAX_SEEDS`."""
    seeds: dict[str, int] = {}
    for seed in range(MAX_SEEDS):
        seeds.setdefault(repr(start_game(game, seed).state.game_state), seed)
    return tuple(seeds.values())


def _import_textarena() -> Any:
    try:
        with preserve_global_generators():  # the import draws from the global generators, too
            import textarena
    except ImportError as error:
        raise ImportError(f"games/TextArena-v0 needs textarena: {install_command('textarena')} ({error})") from None
    return textarena


# GuessTheNumber


def _interval(game: Any) -> tuple[int, int]:
    """Return the bounds of the numbers that fit all answers so far."""
    low, high = game.min_number, game.max_number
    for guess, hint in game.state.game_state["guess_history"]:
        low, high = (max(low, guess + 1), high) if hint == "higher" else (low, min(high, guess - 1))
    return low, high


GUESS = Solver(
    best_reply=lambda game: f"[{sum(_interval(game)) // 2}]",
    random_reply=lambda game, rng: f"[{rng.integers(game.min_number, game.max_number + 1)}]",
    key=lambda game: "{}..{}".format(*_interval(game)),
    attack=" ".join(f"[{number}]" for number in range(100, 0, -1)),
)


# Mastermind


def _consistent_code(game: Any) -> str:
    """Return the first code that fits all answers so far."""
    board = game.state.game_state
    for code in permutations(range(1, board["num_numbers"] + 1), board["code_length"]):
        if all(_pegs(code, turn["guess"]) == (turn["black"], turn["white"]) for turn in board["history"]):
            return _format_code(code)
    raise RuntimeError("no code fits the answers of Mastermind")


def _pegs(code: Sequence[int], guess: Sequence[int]) -> tuple[int, int]:
    """Return the black and white pegs of codes in which no digit occurs twice."""
    black = sum(one == other for one, other in zip(code, guess, strict=True))
    return black, len({*code} & {*guess}) - black


def _format_code(code: Sequence[int]) -> str:
    return f"[{' '.join(map(str, code))}]"


def _random_code(game: Any, rng: np.random.Generator) -> str:
    board = game.state.game_state
    return _format_code((rng.permutation(board["num_numbers"])[: board["code_length"]] + 1).tolist())


CODE = Solver(
    best_reply=_consistent_code,
    random_reply=_random_code,
    key=lambda game: " ".join(
        sorted(
            f"{_format_code(turn['guess'])}{turn['black']}{turn['white']}" for turn in game.state.game_state["history"]
        )
    ),
    attack="[1 2 3 4 5 6]",
)


# FrozenLake


def _next_step(game: Any) -> str:
    """Return the first step of a shortest path around the holes."""
    board = game.state.game_state
    grid, goal = board["grid"], board["goal_pos"]

    def moves(cell: tuple[int, int]) -> Iterator[tuple[str, tuple[int, int]]]:
        for name, (down, right) in STEPS.items():
            row, column = cell[0] + down, cell[1] + right
            if 0 <= row < len(grid) and 0 <= column < len(grid) and grid[row][column] != "H":
                yield name, (row, column)

    return f"[{shortest_plan(tuple(board['player_pos']), moves, tuple(goal).__eq__)[0][0]}]"


LAKE = Solver(
    best_reply=_next_step,
    random_reply=lambda game, rng: f"[{[*STEPS][rng.integers(4)]}]",
    key=lambda game: "{},{}".format(*game.state.game_state["player_pos"]),
    attack="[up down left right]",
)

GAMES = {  # limit of turns, below TextArena's so that random replies seldom win; solver
    "GuessTheNumber-v0": (6, GUESS),
    "GuessTheNumber-v0-hardcore": (7, GUESS),
    "Mastermind-v0": (10, CODE),
    "Mastermind-v0-hard": (12, CODE),
    "FrozenLake-v0": (12, LAKE),
    "FrozenLake-v0-random": (12, LAKE),
    "FrozenLake-v0-hardcore": (15, LAKE),
}
