"""Shortest plans: what the oracles of games with few states play."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TypeVar

State = TypeVar("State", bound=Hashable)
Action = TypeVar("Action")


def shortest(
    start: State, moves: Callable[[State], Iterable[tuple[Action, State]]], done: Callable[[State], bool]
) -> list[tuple[Action, State]]:
    """A shortest way from `start` to a state that is `done`: each action with the state it leads to.

    Breadth first, so of equally short ways the one that `moves` names first. Raises ValueError where there is none.
    """
    if done(start):
        return []
    came: dict[State, tuple[State, Action] | None] = {start: None}
    queue = deque([start])
    while queue:
        here = queue.popleft()
        for action, there in moves(here):
            if there in came:
                continue
            came[there] = (here, action)
            if done(there):
                return _way(came, there)
            queue.append(there)
    raise ValueError(f"no way from {start!r} to the goal")


def followed(
    here: Callable[[], State],
    moves: Callable[[State], Iterable[tuple[Action, State]]],
    done: Callable[[State], bool],
) -> Iterator[Action]:
    """Yield the actions of a shortest plan, made anew whenever the play has left it. `here` tells the state of play."""
    plan: deque[tuple[Action, State]] = deque()
    expected: State | None = None
    while True:
        if not plan or here() != expected:
            plan = deque(shortest(here(), moves, done))
        if not plan:
            return
        action, expected = plan.popleft()
        yield action


def _way(came: dict[State, tuple[State, Action] | None], there: State) -> list[tuple[Action, State]]:
    way = []
    while (step := came[there]) is not None:
        way.append((step[1], there))
        there = step[0]
    return way[::-1]
