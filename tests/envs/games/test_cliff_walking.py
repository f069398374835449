"""Cliff walking: the real game from every cell, the map laid down in eight ways."""

import gymnasium
import pytest

from envs.games.cliff_walking import CLIFF, GOAL, STARTS, STEPS, CliffWalking, next_cell
from envs.types import Task
from tests.support.games import is_won, obs_text, play_oracle, play_replies, random_win_rate, step_replies


class FromStart(CliffWalking):
    """The game's own beginning, on the map as the game has it or turned."""

    quarters, is_mirrored = 0, False

    def tasks(self, split):
        place = {"start": 36, "quarters": self.quarters, "mirrored": self.is_mirrored}
        return [Task(f"{split}/0", metadata=place)]


class QuarterTurn(FromStart):
    quarters = 1


class MirrorImage(FromStart):
    is_mirrored = True


def test_each_turn_tells_how_far_the_goal_is_and_which_steps_fall():
    env = FromStart(style="short")
    assert env.reset()[0][0]["content"] == "11r cliff r"
    assert obs_text(env.step("up")) == "11r 1d"
    assert obs_text(env.step("right")) == "10r 1d cliff d"


@pytest.mark.parametrize(
    "kind, up, right, sight",
    [(QuarterTurn, "right", "down", "11d cliff d"), (MirrorImage, "left", "down", "11d cliff d")],
)
def test_a_turned_map_has_other_names_for_its_ways(kind, up, right, sight):
    env = kind(style="short")
    assert env.reset()[0][0]["content"] == sight
    turns = step_replies(env, [up, *[right] * 11, {"right": "left", "left": "right"}[up]])
    assert is_won(turns)


def test_the_goal_pays_one_whatever_the_game_pays():
    turns = play_replies(FromStart(style="short"), ["up", *["right"] * 11, "down"])
    assert is_won(turns) and turns[-1][4]["metrics"] == {"points": -13.0}


def test_a_fall_costs_a_hundred_points_and_the_way_back():
    turns = play_replies(FromStart(style="short"), ["up", "right", "down"])
    assert turns[-1][4]["metrics"] == {"points": -102.0} and turns[-1][1] == 0.0 and not turns[-1][2]
    assert turns[-1][4]["state"] == "train/0 36" and obs_text(turns[-1]) == "11r cliff r"


@pytest.mark.parametrize("reply", ["down", "left", "rr", "11r cliff r", "up or right", ""])
def test_a_step_against_the_border_or_no_step_is_invalid_and_costs_a_turn(reply):
    env = FromStart(style="short")
    turn = play_replies(env, [reply])[0]
    assert not turn[4]["valid"] and turn[4]["state"] == "train/0 36" and env.turns == 1


def test_steps_lead_where_the_game_says():
    game = gymnasium.make("CliffWalking-v1").unwrapped
    for cell in STARTS:
        for action in range(len(STEPS)):
            there, after = next_cell(cell, action), game.P[cell][action][0][1]
            assert after == (36 if there in CLIFF else cell if there is None else there)


def test_every_cell_and_way_stands_in_one_split_and_the_oracle_wins_from_each():
    env, cells, longest = CliffWalking(style="short"), set(), 0
    for split in ("train", "val", "test"):
        for index, task in enumerate(env.load(split)):
            cells.add(tuple(task.metadata.values()))
            turns = play_oracle(env, index, split)
            assert is_won(turns)
            longest = max(longest, len(turns))
    assert len(cells) == 37 * 8 and longest == 14 < env.max_turns
    assert GOAL not in STARTS and len(STARTS) == 37


def test_slips_follow_the_episodes_seed():
    def walk(seed):
        turns = play_replies(
            CliffWalking(style="short", slippery=True),
            ["up", "right", "up", "right", "left"],
            seed=seed,
            split="test",
            index=0,
        )
        return [turn[4]["state"] for turn in turns]

    assert walk(3) == walk(3)
    assert len({tuple(walk(seed)) for seed in range(8)}) > 1


def test_chance_seldom_wins_and_the_rules_can_be_told():
    assert random_win_rate(CliffWalking(style="short"), 59) < 0.1
    assert "cliff" in CliffWalking(style="v1").reset(seed=0)[0][0]["content"]
