"""Sokoban: pushes by the rule, shortest solutions, levels found backwards."""

import pytest

from envs.games.game import parse_directions
from envs.games.sokoban import Sokoban
from envs.games.warehouse import Situation, Warehouse, parse_map
from envs.types import Task
from tests.support.games import is_won, obs_text, play_oracle, random_win_rate, step_replies

LEVEL = "..G.\n.B..\n..#.\nP..."


def on(drawing: str, **arguments) -> Sokoban:
    """A level as the only task."""

    class OneLevel(Sokoban):
        def tasks(self, split):
            return [Task(f"{split}/0", metadata={"map": drawing})]

    env = OneLevel(**{"style": "short", **arguments})
    env.reset()
    return env


def after(env: Sokoban, *replies: str) -> str:
    return step_replies(env, replies)[-1][4]["state"]


def test_a_map_is_read_and_drawn():
    for drawing in (LEVEL, "*+.\n#GB\nB..", "P.\n#G"):
        warehouse, now = parse_map(drawing)
        assert warehouse.render(now) == drawing
    assert parse_map("*+.\n#GB\nB..") == (Warehouse(3, 0b1000, 0b10011), Situation(1, 0b1100001))


def test_a_step_pushes_the_box_in_its_way():
    env = on(LEVEL)
    assert after(env, "u", "u") == "..G./PB../..#./...."
    turn = step_replies(env, ["r"])[-1]
    assert turn[4]["state"] == "..G./.PB./..#./...." and turn[4]["valid"] and turn[4]["metrics"]["steps"] == 1
    assert obs_text(turn) == "..G.\n.PB.\n..#.\n...."


@pytest.mark.parametrize(
    "drawing, step",
    [
        ("PBB.\n....\n....\nG..G", "r"),
        ("..PB\n....\n....\nG...", "r"),
        ("PB#.\n....\n....\nG...", "r"),
        ("P#..\n.B..\n....\nG...", "r"),
        ("P...\n.B..\n....\nG...", "u"),
    ],
)
def test_walls_the_edge_and_second_boxes_stop_the_player_and_that_costs_a_turn(drawing, step):
    env = on(drawing, boxes=drawing.count("B"))
    (turn,) = step_replies(env, [step])
    assert obs_text(turn) == drawing and turn[4]["valid"] is False and env.turns == 1 and turn[1] == 0.0


def test_a_stopped_step_is_answered_like_every_invalid_reply():
    env = on("P#..\n.B..\n....\nG...", style="full")
    (turn,) = step_replies(env, ["right"])
    answer = obs_text(turn)
    assert "The step right is blocked" in answer and "replies left" in answer and "P#.." in answer.replace(" ", "")


def test_boxes_have_no_names_and_goals_can_be_left_again():
    env = on("G...\nB...\nP.B.\n..G.", boxes=2)
    assert after(env, "u") == "*.../P.../..B./..G."
    assert env.step("d")[4]["metrics"] == {"home": 0.5, "steps": 1.0}
    won_in_time = step_replies(env, ["r", "u", "r", "d"])
    assert is_won(won_in_time) and won_in_time[-1][4]["state"] == "*.../..../..P./..*."
    assert after(on(".G.\nPB.\n..G", size=3), "r") == ".G./.PB/..G"
    assert after(on("GP.\n.B.\n...", size=3), "l") == "+../.B./..."


@pytest.mark.parametrize("arguments", [{}, {"size": 3, "longest": 6}, {"size": 5, "boxes": 2, "longest": 10}])
def test_the_oracle_solves_every_test_level_in_as_few_steps_as_there_are(arguments):
    env = Sokoban(style="short", **arguments)
    for index, task in enumerate(env.load("test")):
        turns = play_oracle(env, index)
        warehouse, start = parse_map(task.metadata["map"])
        assert is_won(turns) and len(turns) == warehouse.distances(env.longest)[start]
        assert env.longest / 2 <= len(turns) <= env.longest <= env.max_turns - 4


def test_distances_played_backwards_are_those_played_forwards():
    warehouse, _ = parse_map(LEVEL)
    distances = warehouse.distances(6)
    assert set(distances.values()) == set(range(7))
    for now, distance in distances.items():
        if distance:
            assert min(distances.get(there, 99) for _, there in warehouse.successors(now)) == distance - 1
            assert all(now in set(warehouse.predecessors(there)) for _, there in warehouse.successors(now))


def test_the_oracle_goes_on_from_where_others_left_it_and_survives_a_lost_game():
    env = on(LEVEL)
    step_replies(env, ["r", "r", "l"])
    assert is_won(step_replies(env, env.oracle()))
    unsolvable = on("B..\nP..\n..G", size=3, max_turns=5)
    assert step_replies(unsolvable, unsolvable.oracle())[-1][4]["stop"] == "turn_limit"


@pytest.mark.parametrize(
    "reply, letters",
    [
        ("u", "u"),
        ("up", "u"),
        (" Up.", "u"),
        ("rru", "rru"),
        ("right, right, up", "rru"),
        ("R R U", "rru"),
        ("not left\nI go right", "r"),
        ("right, yes: right", "r"),
        ("left or right", None),
        ("I go up and down", "ud"),
        ("→ → ↑", "rru"),
        ("I do not go up", None),
        ("go r", "r"),
        ("", None),
        ("north", None),
        ("udx", None),
    ],
)
def test_a_reply_is_moves_alone_or_names_one_direction(reply, letters):
    assert parse_directions(reply) == letters


@pytest.mark.parametrize("reply", ["", "uu", "up up", "left or right", "push"])
def test_no_move_or_more_than_allowed_is_invalid_and_costs_a_turn(reply):
    env = on(LEVEL)
    (turn,) = step_replies(env, [reply])
    assert obs_text(turn) == f"udlr?\n{LEVEL}" and turn[4]["valid"] is False and env.turns == 1


def test_several_steps_may_be_taken_at_once_up_to_the_first_that_is_stopped():
    assert after(on(LEVEL, at_once=4), "uur") == "..G./.PB./..#./...."
    env = on(LEVEL, at_once=4)
    (turn,) = step_replies(env, ["uulr"])
    assert turn[4]["state"] == "..G./PB../..#./...." and turn[4]["valid"] is False and turn[4]["metrics"]["steps"] == 2
    env = on("GBP\n...\n...", size=3, at_once=3)
    (turn,) = step_replies(env, ["lrr"])
    assert is_won([turn]) and turn[4]["valid"]


def test_states_repeat_across_ways_and_no_level_stands_in_two_splits():
    assert after(on(LEVEL), "r", "l") == LEVEL.replace("\n", "/") == after(on(LEVEL), "u", "d")
    env = Sokoban(style="short")
    maps = {split: [task.metadata["map"] for task in env.load(split)[:500]] for split in ("train", "val", "test")}
    assert len(set(maps["test"])) == 100
    assert not set(maps["test"]) & {*maps["train"], *maps["val"]} and not set(maps["train"]) & set(maps["val"])


def test_random_steps_seldom_solve_a_level():
    assert random_win_rate(Sokoban(style="short"), 100) < 0.1


@pytest.mark.parametrize("arguments", [{"size": 2}, {"boxes": 4}, {"longest": 3}, {"at_once": 0}])
def test_impossible_arguments_are_named(arguments):
    name, value = next(iter(arguments.items()))
    with pytest.raises(ValueError, match=f"{name} {value} is outside"):
        Sokoban(style="short", **arguments)


def test_levels_that_cannot_be_are_refused_instead_of_looked_for_for_ever():
    with pytest.raises(ValueError, match="longest=40 is out of reach with size=3, boxes=1"):
        Sokoban(style="short", size=3, longest=40).load("train")[0]
