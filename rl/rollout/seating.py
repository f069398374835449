"""Which seats of an environment the policy plays in training, and what it is measured in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import gymnasium

import envs
from rl.style import argument_key

VIEW_ARGUMENTS = ("seat", "opponent")  # of `envs.multi.seat_view.SeatView`


@dataclass(frozen=True)
class Seating:
    """An environment as a run plays it.

    An environment of several seats is trained in all of them, unless an `--env-arg` names a `seat` or an `opponent`,
    which asks for its single-agent view. In that case, and in an environment of one agent, the only seat is "agent".
    The cold start imitates the oracle in the view, in a seat that the seed draws. Success is measured where it has a
    meaning: teammates play with each other; in a contest the policy meets the default opponent of the view.

    Attributes:
        spec: Name of the environment.
        arguments: Its arguments.
        seats: The seats that the policy plays in training.
        is_contest: Whether what a seat earns depends on who sits in the others.
        opponent: The default opponent of the view; "" with one seat.
    """

    spec: str
    arguments: Mapping[str, Any]
    seats: tuple[str, ...] = ("agent",)
    is_contest: bool = False
    opponent: str = ""
    view_arguments: Mapping[str, Any] = field(default_factory=dict)

    @property
    def has_table(self) -> bool:
        """Whether several seats are trained."""
        return self.seats != ("agent",)

    def make_env(self) -> Any:
        """Make the environment that is trained in."""
        return self.make_view().unwrapped.table if self.has_table else self.make_view()  # type: ignore[attr-defined]

    def make_view(self) -> gymnasium.Env:
        """Make the environment of one agent: the only one, or the view in which one seat is free."""
        return envs.make(self.spec, **self.arguments, **self.view_arguments)

    def make_floor(self) -> gymnasium.Env:
        """Make the environment in which a random agent is as good as a random policy in the one that is measured."""
        if self.has_table and not self.is_contest:
            return envs.make(self.spec, **self.arguments, **{**self.view_arguments, "opponent": "random"})
        return self.make_view()

    def description(self) -> str:
        """Return a line on who plays which seat; "" for one agent."""
        if not self.has_table:
            return ""
        where = f"against {self.opponent} in a drawn seat" if self.is_contest else "in all seats together"
        return f"the policy is trained in the seats {', '.join(self.seats)} and measured {where}"


def seating_of(
    spec: str, env_args: Iterable[str], arguments: Mapping[str, Any], *, plays_seats: bool = True
) -> Seating:
    """Return how the environment `spec` is played; `env_args` are the `KEY=VALUE` texts of its `arguments`.

    `plays_seats` says whether the run's strategy can play several seats (`rl.methods.recipe.plays_seats`).

    Raises `ValueError` for several seats with a strategy that plays one agent only.
    """
    game: Any = getattr(envs.entry(spec), "game", None)  # of a single-agent view
    if not hasattr(game, "teammates") or {argument_key(text) for text in env_args} & set(VIEW_ARGUMENTS):
        return Seating(spec, arguments)
    if not plays_seats:
        raise ValueError(
            f"{spec} has the seats {', '.join(game.seats)}, and the method's strategy plays one agent only; "
            f"--env-arg seat={game.seats[0]} trains that seat against the default opponent"
        )
    return Seating(
        spec, arguments, tuple(game.seats), not game.teammates, game.default_opponent, view_arguments={"seat": "any"}
    )
