"""Breadth-first search for shortest plans, which the oracles of games with few states play."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TypeVar

State = TypeVar("State", bound=Hashable)
Action = TypeVar("Action")


def shortest_plan(
    start: State, moves: Callable[[State], Iterable[tuple[Action, State]]], is_goal: Callable[[State], bool]
) -> list[tuple[Action, State]]:
    """Return a shortest plan from `start` to a goal: its actions, each with the state it leads to.

    Args:
        start: State in which the plan begins. If it is a goal, the plan is empty.
        moves: Gives the actions that are possible in a state, each with the state it leads to.
        is_goal: Whether a state is a goal.

    Returns:
        The plan. Of equally short plans it is the one that breadth-first search finds first in the order of `moves`.

    Raises:
        ValueError: No goal can be reached.
    """
    if is_goal(start):
        return []
    predecessors: dict[State, tuple[State, Action] | None] = {start: None}
    queue = deque([start])
    while queue:
        state = queue.popleft()
        for action, there in moves(state):
            if there in predecessors:
                continue
            predecessors[there] = (state, action)
            if is_goal(there):
                return _path_to(predecessors, there)
            queue.append(there)
    raise ValueError(f"no way from {start!r} to the goal")


def follow_plan(
    current_state: Callable[[], State],
    moves: Callable[[State], Iterable[tuple[Action, State]]],
    is_goal: Callable[[State], bool],
) -> Iterator[Action]:
    """Yield the actions of a shortest plan; search again whenever the current state is not the one that was planned.

    `current_state` returns the state of the game before each action; `moves` and `is_goal` are as in `shortest_plan`.
    The iterator ends in a goal and raises ValueError where no goal can be reached.
    """
    plan: deque[tuple[Action, State]] = deque()
    expected: State | None = None
    while True:
        if not plan or current_state() != expected:
            plan = deque(shortest_plan(current_state(), moves, is_goal))
        if not plan:
            return
        action, expected = plan.popleft()
        yield action


def _path_to(predecessors: dict[State, tuple[State, Action] | None], there: State) -> list[tuple[Action, State]]:
    path = []
    while (step := predecessors[there]) is not None:
        path.append((step[1], there))
        there = step[0]
    return path[::-1]
