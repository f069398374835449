"""Mazes: perfect or with loops, seen cell by cell."""

import numpy as np
import pytest

from envs.games.maze import BACK, BIT, EXITS, Maze, carve_maze
from envs.types import Task
from tests.support.games import is_won, obs_text, play_oracle, play_replies, random_win_rate, step_replies


class Corridor(Maze):
    """One maze of four rows: east along the first row, then south along the last column."""

    def tasks(self, split):
        return [Task(f"{split}/0", metadata={"maze": "2aac000500050001", "start": 0, "goal": 15, "shortest": 6})]


def walls(maze: str) -> int:
    return sum(int(digit, 16).bit_count() for digit in maze) // 2


def reached(maze: str, size: int) -> int:
    env = Maze(style="short", size=size)
    cells = {0}
    for cell in (queue := [0]):
        for _, there in env._moves(maze, cell):
            if there not in cells:
                cells.add(there)
                queue.append(there)
    return len(cells)


@pytest.mark.parametrize("size", [4, 7])
def test_a_maze_without_loops_is_a_tree_through_every_cell(size):
    maze = carve_maze(size, 0.0, np.random.default_rng(1))
    assert walls(maze) == size**2 - 1
    assert reached(maze, size) == size**2


def test_loops_open_more_walls_and_every_passage_goes_both_ways():
    rng = np.random.default_rng(2)
    mazes = [carve_maze(6, 0.3, rng) for _ in range(20)]
    inside = 2 * 6 * 5
    assert 0.2 < np.mean([(walls(maze) - 35) / (inside - 35) for maze in mazes]) < 0.4
    env = Maze(style="short", size=6)
    for maze in mazes:
        for cell in range(36):
            for way, there in env._moves(maze, cell):
                assert int(maze[there], 16) & BIT[BACK[way]]


def test_each_turn_names_the_exits_and_where_the_goal_lies():
    env = Corridor(style="short")
    opening, _ = env.reset()
    assert opening == ({"role": "user", "content": "e goal 3s 3e"},)
    assert obs_text(env.step("east")) == "ew goal 3s 2e"
    assert obs_text(env.step("w")) == "e goal 3s 3e"


def test_views_show_less_or_more():
    assert Corridor(style="short", view="exits").reset()[0][0]["content"] == "e"
    assert Corridor(style="short", view="position").reset()[0][0]["content"] == "e at 0,0 goal 3s 3e"


def test_the_goal_pays_one_and_says_how_straight_the_way_was():
    turns = play_replies(Corridor(style="short"), ["e", "w", "e", "e", "I go east", "south", "s", "s"])
    assert is_won(turns) and turns[-1][4]["stop"] == "terminated"
    assert turns[-1][4]["metrics"] == {"efficiency": 6 / 8}


@pytest.mark.parametrize("reply", ["n", "", "up", "e or s", "e s s", "nesw"])
def test_a_wall_or_no_direction_is_invalid_and_costs_a_turn(reply):
    env = Corridor(style="short")
    env.reset()
    messages, reward, terminated, truncated, info = env.step(reply)
    assert (reward, terminated, truncated, info["valid"], env.turns) == (0.0, False, False, False, 1)
    assert messages[0]["content"] == "e goal 3s 3e!"
    assert info["state"] == "train/0 0"


def test_the_state_does_not_remember_the_way_there():
    env = Corridor(style="short")
    there = play_replies(env, ["e", "e"])[-1][4]["state"]
    assert play_replies(env, ["e", "n", "e", "w", "e"])[-1][4]["state"] == there


@pytest.mark.parametrize("arguments", [{}, {"size": 6}, {"size": 8, "loops": 0.2, "view": "exits"}])
def test_the_oracle_takes_a_shortest_way_on_every_task(arguments):
    env = Maze(style="short", **arguments)
    for index, task in enumerate(env.load("test")[:60]):
        turns = play_oracle(env, index)
        assert is_won(turns) and len(turns) == task.metadata["shortest"]
        assert env.size <= len(turns) <= 2 * env.size < env.max_turns


def test_the_oracle_finds_the_way_from_where_others_left_the_player():
    env = Corridor(style="short")
    play_replies(env, ["e", "e", "w"])
    assert is_won(step_replies(env, env.oracle()))


def test_no_maze_stands_in_two_splits_and_chance_seldom_wins():
    env = Maze(style="short")
    mazes = {split: {task.metadata["maze"] for task in env.load(split)[:800]} for split in ("train", "val", "test")}
    assert len(mazes["test"]) == len(mazes["val"]) == 200
    assert not mazes["train"] & mazes["test"] and not mazes["train"] & mazes["val"] and not mazes["val"] & mazes["test"]
    assert random_win_rate(env, 150) < 0.1


@pytest.mark.parametrize(
    "arguments, word",
    [({"size": 3}, r"size 3 is outside 4\.\.20"), ({"loops": 0.9}, "0.9"), ({"view": "map"}, "'map' is not one of")],
)
def test_impossible_arguments_are_named(arguments, word):
    with pytest.raises(ValueError, match=word):
        Maze(style="short", **arguments)


def test_every_cell_has_its_own_letters():
    assert EXITS["0"] == "" and EXITS["f"] == "nesw" and len(set(EXITS.values())) == 16


def test_the_rules_name_what_the_view_shows():
    assert "goal lies" in Maze(style="v1").reset(seed=0)[0][0]["content"]
    assert "goal lies" not in Maze(style="v1", view="exits").reset(seed=0)[0][0]["content"]
