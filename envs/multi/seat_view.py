"""The single-agent view of an environment with several seats: one seat is free, scripts play the others."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain
from typing import Any, ClassVar

import numpy as np

from envs.env import Env
from envs.episodes.guide import Guide
from envs.multi.multi_env import MultiEnv
from envs.multi.opponents import Opponent, make_opponent
from envs.suggestions import unknown_message
from envs.types import Message, Messages, Outcome, Stop, Task

MAX_DEALS = 100  # episodes that end before the seat's first move, in a row


class SeatView(Env):
    """One seat of a `MultiEnv` as an `envs.env.Env`. Use a subclass that `seat_view` makes.

    The others are asked within `reset` and `step`. Their random numbers are drawn from the episode's seed.

    Args:
        opponent: Who plays the other seats (`envs.multi.opponents.make_opponent`); None for the game's default.
        seat: The free seat; None for the first one; "any" for one that the episode's seed draws.
        **arguments: Arguments of the game, and those of `Env`.

    Raises:
        ValueError: An unknown seat or opponent.
    """

    game: ClassVar[type[MultiEnv]]
    constructors: ClassVar[Sequence[type]]  # classes whose `__init__` take the arguments (`envs.arguments.parameters`)

    def __init__(self, *, opponent: str | None = None, seat: str | None = None, **arguments: Any) -> None:
        limits = {key: arguments[key] for key in ("style", "max_seconds") if key in arguments}
        render_mode = arguments.pop("render_mode", None)
        self.table = self.game(**{key: value for key, value in arguments.items() if key != "max_seconds"})
        super().__init__(max_turns=self.table.max_turns, render_mode=render_mode, **limits)
        if seat not in (None, "any", *self.table.seats):
            raise ValueError(unknown_message("seat", seat, ("any", *self.table.seats), of=self.game.__name__))
        self.opponent = self.game.default_opponent if opponent is None else opponent
        make_opponent(self.opponent, self.game)  # raises for an unknown one
        self.seat_argument = seat
        self.seat = self.table.seats[0] if seat in (None, "any") else str(seat)
        self.blocking = self.table.blocking
        self.max_return = self.table.max_return
        self.is_contest = not self.table.teammates or self.opponent != "oracle"
        self.tools = tuple(self.table.tools.get(self.seat, ()))

    def tasks(self, split: str) -> Sequence[Task]:
        """Return the tasks of the game."""
        return self.table.load(split)

    def start(self) -> Messages:
        """Start the game, let the others move, and return what the seat reads first."""
        if self.seat_argument == "any":
            self.seat = self.table.seats[int(self.np_random.integers(len(self.table.seats)))]
            self.tools = tuple(self.table.tools.get(self.seat, ()))
        self._opponent_rng = np.random.default_rng(int(self.np_random.integers(2**63)))
        for _ in range(MAX_DEALS):
            options = {"split": self.split, "index": self.index}
            self.table.reset(seed=int(self.np_random.integers(2**31)), options=options)
            self._play_others()
            if self._is_asked():
                return self.table.unguided_messages(self.seat)
        raise RuntimeError(
            f"{self._name}: {self.seat} was never to move in {MAX_DEALS} games of task {self.task.id}: opponent="
            f"{self.opponent} ends them first; take another opponent, or the seat that moves first"
        )

    def reply(self, action: Message) -> Outcome:
        """Play the seat's reply, and the others until the seat is to move again or its episode is over."""
        table, seat = self.table, self.seat
        table.step(action)
        self._play_others()
        info = table.infos[seat]
        return Outcome(
            messages=table.unguided_messages(seat),
            reward=table._cumulative_rewards[seat],
            terminated=table.terminations[seat],
            success=info.get("success", False),
            valid=info["valid"],
            rewards=info["rewards"],
        )

    def guide(self) -> Guide | None:
        """Return the guide of the seat."""
        return self.table.guide(self.seat)

    def drawing(self) -> str:
        """Return the signs of the seat's latest observation."""
        return self.table.drawing(self.seat)

    def state(self) -> str:
        """Return the state of the game."""
        return self.table.state()

    def oracle(self) -> Iterator[Message]:
        """Return the replies of the game's oracle in the seat. Raises NotImplementedError if it has none."""
        first = self.table.oracle(self.seat)
        return chain([first], (self.table.oracle(self.seat) for _ in iter(int, 1)))

    def noop(self) -> Message:
        """Return the game's reply that does nothing."""
        return self.table.noop(self.seat)

    def random(self, rng: np.random.Generator) -> Message:
        """Return a random reply in the seat."""
        return self.table.random(self.seat, rng)

    def close(self) -> None:
        """Close the game."""
        self.table.close()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by the game's class, because the class of the view is made when it is first asked for."""
        return _bare_view, (self.game,), vars(self)

    def _is_over(self) -> bool:
        return bool(self.table.terminations[self.seat] or self.table.truncations[self.seat])

    def _is_asked(self) -> bool:
        return not self._is_over() and self.table.agent_selection == self.seat

    def _play_others(self) -> None:
        """Let the others move until the seat is asked or its episode is over."""
        table = self.table
        opponent: Opponent = make_opponent(self.opponent, self.game)
        while not self._is_over() and not self._is_asked():
            other = table.agent_selection
            is_gone = table.terminations[other] or table.truncations[other]
            table.step(None if is_gone else opponent(table, other, self._opponent_rng))

    def _last_messages(self, outcome: Outcome, limit: Stop | None) -> Messages:
        """The last messages; the game has closed them in words already if it is over for the seat."""
        return outcome.messages if self._is_over() else super()._last_messages(outcome, limit)

    def _limit(self) -> Stop | None:
        """The limit that the episode has reached, of the seat or of the whole game."""
        if self.table.truncations.get(self.seat):
            return Stop(self.table.infos[self.seat]["stop"])
        return super()._limit()


@cache
def seat_view(game: type[MultiEnv]) -> type[SeatView]:
    """Return the class of the single-agent view of a game; always the same for the same game."""
    constructors = (SeatView, *game.__mro__)
    view = type(
        game.__name__,
        (SeatView,),
        {"game": game, "constructors": constructors, "__doc__": game.__doc__, "__module__": game.__module__},
    )
    view.__signature__ = _signature(game)  # type: ignore[attr-defined]
    return view


def _signature(game: type[MultiEnv]) -> inspect.Signature:
    """The arguments of the view, then those of the game."""
    own = list(inspect.signature(SeatView.__init__).parameters.values())[1:-1]
    arguments = [p for p in inspect.signature(game.__init__).parameters.values() if p.kind is p.KEYWORD_ONLY]
    rest = inspect.Parameter("limits", inspect.Parameter.VAR_KEYWORD)
    return inspect.Signature([*arguments, *(p for p in own if p.name not in {a.name for a in arguments}), rest])


def _bare_view(game: type[MultiEnv]) -> SeatView:
    view = seat_view(game)  # type: ignore[arg-type]
    return view.__new__(view)
