"""Rooms: a small house that keeps its rules, plans of the length that was asked for."""

import json

import numpy as np
import pytest

from envs.games.blueprint import draw_blueprint
from envs.games.house import build_house
from envs.games.planning import shortest_plan
from envs.games.rooms import Rooms
from envs.types import Task
from tests.support.games import is_won, obs_text, play_oracle, play_replies, random_win_rate, step_replies

PLAN = {  # den -east-> hall -(locked door, north)-> attic; the key lies in a chest in the den, the cup in the attic
    "rooms": ["den", "hall", "attic"],
    "exits": [{"east": 1}, {"west": 0, "north": 2}, {"south": 1}],
    "door": [1, 2],
    "containers": [["box", 1], ["chest", 0]],
    "items": ["cup", "key", "hat"],
    "target": 100,
    "start": [0, [2, 101, 1], 0b111, True],
}
SOLUTION = [
    "open chest", "take key", "go east", "unlock door", "open door", "go north", "take cup", "go south", "open box",
    "put cup in box",
]  # fmt: skip


class OneHouse(Rooms):
    def tasks(self, split):
        return [Task(f"{split}/0", metadata={"house": json.dumps(PLAN)})]


def one(**arguments):
    return OneHouse(style="short", length=10, **arguments)


def test_the_task_is_told_first_and_each_turn_the_commands_that_work():
    env = one()
    assert env.reset()[0][0]["content"] == "put cup in box\nden: go east, open chest"
    assert obs_text(env.step("open chest")) == "den: go east, take key"
    assert obs_text(env.step("take key")) == "den; have key: go east, put key in chest"
    assert (
        obs_text(env.step("go east")) == "hall; north door locked; have key: go west, unlock door, open box, take hat"
    )


def test_without_commands_the_room_is_described():
    env = one(commands=False)
    assert env.reset()[0][0]["content"] == "put cup in box\nden; exits east; chest shut"
    assert obs_text(env.step("open chest")) == "den; exits east; chest with key"
    assert (
        obs_text(play_replies(env, ["go east"])[0]) == "hall; exits west north; north door locked; box shut; here hat"
    )
    assert obs_text(play_replies(env, ["open chest", "take key"])[1]) == "den; exits east; chest empty; have key"


def test_the_task_pays_one_when_it_is_done():
    turns = play_replies(one(), SOLUTION)
    assert is_won(turns) and turns[-1][4]["metrics"] == {"efficiency": 1.0}


@pytest.mark.parametrize("word", ["into", "inside"])
def test_what_is_put_into_something_is_put_in_it(word):
    assert is_won(play_replies(one(), [*SOLUTION[:-1], f"I put the cup {word} the box."]))


def test_a_longer_reply_is_read_at_its_end():
    env = one()
    turns = play_replies(env, ["I will **open the chest**.", "First the key.\nTake the key!", "GO EAST"])
    assert [turn[4]["valid"] for turn in turns] == [True] * 3


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "go north",
        "take cup",
        "unlock door",
        "open box",
        "open",
        "go east, open chest",
        "open chest, take key",
        "xyzzy",
    ],
)
def test_a_command_that_does_not_work_is_invalid_and_costs_a_turn(reply):
    env = one()
    turn = play_replies(env, [reply])[0]
    assert obs_text(turn) == "den: go east, open chest!" and not turn[4]["valid"] and turn[1] == 0.0
    assert (turn[4]["state"], env.turns) == ("train/0 0 2 101 1 111 locked", 1)


def test_a_locked_door_needs_the_key_and_then_a_push():
    env = one()
    hall = play_replies(env, ["go east"])[0]
    assert "unlock" not in obs_text(hall) and "go north" not in obs_text(hall)
    turns = play_replies(env, SOLUTION[:5])
    assert (
        "north door shut" in obs_text(turns[3])
        and "go north" not in obs_text(turns[3])
        and "go north" in obs_text(turns[4])
    )


def test_the_state_does_not_remember_the_way_there():
    there = play_replies(one(), ["open chest", "take key", "go east", "take hat"])[-1][4]["state"]
    assert (
        play_replies(one(), ["go east", "take hat", "go west", "open chest", "take key", "go east"])[-1][4]["state"]
        == there
    )


def test_what_is_put_away_can_be_taken_again():
    turns = play_replies(one(), ["open chest", "take key", "put key in chest", "take key"])
    assert turns[1][4]["state"] == turns[3][4]["state"] and turns[2][4]["state"] == turns[0][4]["state"]


@pytest.mark.parametrize("rooms, clutter", [(2, 0), (4, 1), (9, 3)])
def test_the_length_of_a_quest_is_that_of_its_shortest_plan(rooms, clutter):
    rng = np.random.default_rng(0)
    for length in range(2, rooms + 7):
        for _ in range(8):
            plan = draw_blueprint(rooms, length, clutter, rng)
            house = build_house(json.dumps(plan))
            assert len(shortest_plan(house.start, house.useful_commands, house.is_done)) == length
            assert len(set(plan["rooms"])) == rooms and len(plan["items"]) == len(plan["start"][1])


@pytest.mark.parametrize(
    "arguments", [{}, {"rooms": 2, "length": 2, "clutter": 0}, {"rooms": 9, "length": 14}, {"rooms": 3, "length": 9}]
)
def test_the_oracle_does_every_task_in_as_many_commands_as_asked_for(arguments):
    env = Rooms(style="short", **arguments)
    for index in range(0, 200, 8):
        turns = play_oracle(env, index)
        assert is_won(turns) and len(turns) == env.length < env.max_turns


def test_the_oracle_goes_on_from_what_others_did():
    env = one(max_turns=30)
    play_replies(env, ["open chest", "take key", "put key in chest", "go east", "take hat"])
    assert is_won(step_replies(env, env.oracle()))


def test_no_house_stands_in_two_splits_and_chance_seldom_wins():
    env = Rooms(style="short")
    houses = {split: {task.metadata["house"] for task in env.load(split)[:300]} for split in ("train", "val", "test")}
    assert len(houses["test"]) == 200 and len(houses["val"]) == 100
    assert not houses["train"] & houses["test"] and not houses["val"] & houses["test"]
    assert random_win_rate(env, 150) < 0.2


@pytest.mark.parametrize("arguments", [{"rooms": 1}, {"length": 11}, {"length": 1}, {"clutter": 6}])
def test_impossible_arguments_are_named(arguments):
    name, value = next(iter(arguments.items()))
    with pytest.raises(ValueError, match=f"{name} {value} is outside"):
        Rooms(style="short", **arguments)


def test_the_rules_name_the_commands():
    assert "unlock door" in Rooms(style="v1").reset(seed=0)[0][0]["content"]
