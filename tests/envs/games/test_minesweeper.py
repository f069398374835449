"""Minesweeper: fields that logic clears, truthful numbers, no way to win but opening cells."""

from itertools import combinations

import numpy as np
import pytest

from envs.games.minefield import CLOSED, MINE, build_field, count_moves_to_clear, neighbours, open_cell, safe_cells
from envs.games.minesweeper import Minesweeper
from envs.types import Task
from tests.support.games import is_won, obs_text, play_oracle, random_win_rate, step_replies

FIELD = ".1*1" + ".122" + "..1*" + "..11"  # mines at c1 and d3


class OneField(Minesweeper):
    """Two mines and the first cell at the bottom left."""

    def tasks(self, split):
        return [Task(f"{split}/0", metadata={"field": FIELD, "first": 12})]


def started_env() -> OneField:
    env = OneField(style="short", mines=2)
    env.reset()
    return env


def test_a_field_counts_the_mines_around_each_cell_and_opens_up_to_its_numbers():
    around = neighbours(4)
    assert build_field({2, 11}, around) == FIELD
    view = [CLOSED] * 16
    assert open_cell(view, FIELD, 12, around) == 11
    assert "".join(view) == ".1##.12#..1#..1#"
    assert open_cell([CLOSED] * 16, FIELD, 1, around) == 1
    assert [len(near) for near in neighbours(3)] == [3, 5, 3, 5, 8, 5, 3, 5, 3]


def test_logic_finds_what_two_numbers_say_together_and_what_the_number_of_mines_says():
    around = neighbours(4)
    assert safe_cells(list("####" + "1211" + "...." + "...."), 2, around) == [1, 3]  # 1-2-1 and the pair at the edge
    assert safe_cells(list("1###" + "####" + "####" + "###1"), 2, around) == []
    assert 3 in safe_cells(list("1*1#".replace("*", CLOSED) + "1111" + "...." + "...."), 1, around)


def test_logic_never_calls_a_mine_safe():
    rng, around = np.random.default_rng(0), neighbours(4)
    for _ in range(300):
        mines = {int(cell) for cell in rng.permutation(16)[:3]}
        whole = build_field(mines, around)
        view = [mark if mark != MINE and rng.random() < 0.5 else CLOSED for mark in whole]
        assert not mines.intersection(safe_cells(view, 3, around))


def test_safe_cells_are_safe_on_every_field_that_fits():
    rng, around = np.random.default_rng(1), neighbours(4)
    wholes = [build_field(set(mines), around) for mines in combinations(range(16), 2)]
    safe_count = 0
    for whole in wholes[::4]:
        view = [mark if mark != MINE and rng.random() < 0.4 else CLOSED for mark in whole]
        fitting = [one for one in wholes if all(mark in (CLOSED, other) for mark, other in zip(view, one, strict=True))]
        for cell in safe_cells(view, 2, around):
            safe_count += 1
            assert all(one[cell] != MINE for one in fitting)
    assert safe_count > 20


@pytest.mark.parametrize("arguments", [{}, {"mines": 2}, {"size": 5, "mines": 5}])
def test_the_oracle_clears_every_test_field_without_guessing(arguments):
    env = Minesweeper(style="short", **arguments)
    for index, task in enumerate(env.load("test")):
        turns = play_oracle(env, index)
        assert is_won(turns) and turns[-1][4]["metrics"] == {"progress": 1.0}
        assert all(turn[4]["valid"] for turn in turns)
        moves = count_moves_to_clear(task.metadata["field"], task.metadata["first"], env.mines, neighbours(env.size))
        assert 2 <= len(turns) == moves <= env.max_turns


def test_the_oracle_goes_on_from_where_others_left_it():
    env, rng, episodes = Minesweeper(style="short"), np.random.default_rng(3), 0
    for index in range(40):
        env.reset(options={"split": "test", "index": index})
        turns = step_replies(env, [env.random(rng)])
        if turns[-1][2]:
            continue
        episodes += 1
        assert step_replies(env, env.oracle())[-1][4]["success"]
    assert episodes > 10


def test_each_turn_shows_the_field_in_nineteen_bytes():
    env = OneField(style="short", mines=2)
    opening, info = env.reset()
    assert opening[0]["content"] == ".1##\n.12#\n..1#\n..1#" and len(opening[0]["content"]) == 19
    assert info["state"] == ".1##/.12#/..1#/..1#"
    turn, second = step_replies(env, ["d2", "d1"])
    assert obs_text(turn) == ".1##\n.122\n..1#\n..1#"
    assert turn[4]["metrics"] == {"progress": pytest.approx(1 / 3)} and turn[1] == 0.0
    assert second[4]["metrics"] == {"progress": pytest.approx(2 / 3)}
    (last,) = step_replies(env, ["d4"])
    assert last[2] and last[4]["success"] and last[1] == 1.0


def test_a_mine_ends_the_game_and_pays_nothing():
    (turn,) = step_replies(started_env(), ["c1"])
    assert turn[1:3] == (0.0, True) and turn[4]["success"] is False and turn[4]["stop"] == "terminated"


@pytest.mark.parametrize("reply", ["d2", "D2", " d2.", "2 4", "2, 4", "row 2, column 4", "not a1\nI open d2, d2 it is"])
def test_a_cell_may_be_named_by_letter_and_number_or_by_row_and_column(reply):
    (turn,) = step_replies(started_env(), [reply])
    assert turn[4]["valid"] and turn[4]["state"] == ".1##/.122/..1#/..1#"


@pytest.mark.parametrize(
    "reply", ["", "d", "2", "d2 d1", "e2", "d5", "2 5", "0 4", "a1", "1 2 3", "2.4", "12 4", "xd2"]
)
def test_no_cell_several_or_an_open_one_are_invalid_and_cost_a_turn(reply):
    env = started_env()
    (turn,) = step_replies(env, [reply])
    assert obs_text(turn) == "a1?\n.1##\n.12#\n..1#\n..1#"
    assert (turn[4]["valid"], turn[1], turn[2], env.turns) == (False, 0.0, False, 1)


def test_random_cells_win_seldom():
    assert random_win_rate(Minesweeper(style="short"), 100) < 0.2


def test_no_field_stands_in_two_splits():
    env = Minesweeper(style="short")
    kinds = {split: {tuple(task.metadata.values()) for task in env.load(split)[:400]} for split in ("train", "test")}
    assert len(kinds["test"]) == 100 and not kinds["train"] & kinds["test"]
    assert 10 < len(Minesweeper(mines=2).load("val")) < 100  # there are no more


@pytest.mark.parametrize("arguments", [{"size": 3}, {"size": 10}, {"mines": 4}, {"mines": 1}, {"size": 8, "mines": 13}])
def test_impossible_arguments_are_named(arguments):
    name = list(arguments)[-1]
    with pytest.raises(ValueError, match=f"{name} {arguments[name]} is outside"):
        Minesweeper(style="short", **arguments)
