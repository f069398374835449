"""Taxi: the real game, every beginning of it, walls told in words."""

import gymnasium
import pytest

from envs.games.taxi import LONGEST, Taxi
from envs.types import Task
from tests.support.games import is_won, obs_text, play_oracle, play_replies, random_win_rate, step_replies


class OneRide(Taxi):
    """From 3,1 the passenger waits at R and wants to G."""

    def tasks(self, split):
        return [Task(f"{split}/0", metadata={"start": ((3 * 5 + 1) * 5 + 0) * 4 + 1})]


def test_each_turn_shows_the_taxi_the_open_ways_and_the_journey():
    env = OneRide(style="short")
    assert env.reset()[0][0]["content"] == "3,1 sne R>G"
    assert obs_text(env.step("I go north")) == "2,1 snew R>G"
    turns = step_replies(env, ["west", "north", "north", "pick"])
    assert obs_text(turns[-1]) == "0,0 se taxi>G"


def test_the_ways_are_those_that_move_the_taxi():
    env, game = Taxi(style="short"), gymnasium.make("Taxi-v4").unwrapped
    for index in range(0, 60, 4):
        opening, _ = env.reset(options={"split": "test", "index": index})
        state = env.observation
        open_ways = {"snew"[i] for i in range(4) if game.P[state][i][0][1] != state}
        assert set(opening[0]["content"].split()[1]) == open_ways


def test_a_delivered_passenger_pays_one():
    turns = play_oracle(OneRide(style="short"), 0)
    assert is_won(turns) and turns[-1][4]["metrics"] == {"points": 20.0 - (len(turns) - 1)}


@pytest.mark.parametrize("reply, points", [("west", -1.0), ("pick", -10.0), ("drop", -10.0)])
def test_what_cannot_be_done_is_invalid_and_costs_a_turn(reply, points):
    turn = play_replies(OneRide(style="short"), [reply])[0]
    assert obs_text(turn) == "3,1 sne R>G" and turn[1] == 0.0
    assert not turn[4]["valid"] and turn[4]["metrics"] == {"points": points}


def test_points_are_those_of_the_episode_so_far():
    env = OneRide(style="short")
    for _ in range(2):
        turns = play_replies(env, ["pick", "hello", "south"])
        assert [turn[4]["metrics"]["points"] for turn in turns] == [-10.0, -10.0, -11.0]


def test_a_reply_without_an_action_is_answered_with_their_names():
    turn = play_replies(OneRide(style="short"), ["hello"])[0]
    assert obs_text(turn) == "south|north|east|west|pick|drop?\n3,1 sne R>G" and not turn[4]["valid"]


@pytest.mark.parametrize("level, beginnings", [(0, 100), (1, 300)])
def test_every_beginning_stands_in_one_split_and_the_game_knows_it(level, beginnings):
    env = Taxi(style="short", level=level)
    starts = [task.metadata["start"] for split in ("train", "val", "test") for task in env.load(split)]
    assert len(starts) == len(set(starts)) == beginnings
    game = gymnasium.make("Taxi-v4").unwrapped
    possible = (
        set(game.initial_state_distrib.nonzero()[0]) if level else {s for s in range(500) if game.decode(s)[2] == 4}
    )
    assert set(starts) == possible


@pytest.mark.parametrize("level", [0, 1])
def test_the_oracle_delivers_from_everywhere_in_time(level):
    env, longest = Taxi(style="short", level=level), 0
    for split in ("train", "val", "test"):
        for index in range(len(env.load(split))):
            turns = play_oracle(env, index, split)
            assert is_won(turns)
            longest = max(longest, len(turns))
    assert longest == LONGEST[level] < env.max_turns


def test_the_oracle_goes_on_from_where_others_left_the_taxi():
    env = OneRide(style="short")
    play_replies(env, ["east", "north", "drop"])
    assert is_won(step_replies(env, env.oracle()))


def test_the_game_is_made_once_and_closed_at_the_end():
    env = Taxi(style="short")
    env.reset(seed=0)
    first = env.inner
    env.reset(seed=1)
    assert env.inner is first and env.inner.unwrapped.spec.id == "Taxi-v4"
    env.close()
    assert env.inner is None


def test_chance_hardly_ever_wins_and_levels_are_checked():
    assert random_win_rate(Taxi(style="short"), 60) < 0.05
    with pytest.raises(ValueError, match=r"level 2 is outside 0\.\.1"):
        Taxi(style="short", level=2)
