"""Breadth-first plans are shortest, and a follower plans anew when the play has left the plan."""

import pytest

from envs.games.planning import follow_plan, shortest_plan


def moves(number):
    return [("add", number + 1), ("double", 2 * number)] if number < 100 else []


def test_a_plan_is_shortest_and_names_the_states_on_the_way():
    assert shortest_plan(1, moves, lambda number: number == 10) == [
        ("add", 2),
        ("double", 4),
        ("add", 5),
        ("double", 10),
    ]
    assert shortest_plan(7, moves, lambda number: number == 7) == []


def test_a_goal_out_of_reach_is_an_error():
    with pytest.raises(ValueError, match="no way from 5"):
        shortest_plan(5, moves, lambda number: number == 3)


def test_a_follower_plans_anew_from_where_others_left_it():
    now = 1
    plan = follow_plan(lambda: now, moves, lambda number: number == 10)
    assert next(plan) == "add"
    now = 2
    assert next(plan) == "double"
    now = 9  # not 4
    assert next(plan) == "add"
    now = 10
    assert list(plan) == []
