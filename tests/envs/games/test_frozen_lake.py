"""Frozen lake and the wrapper that puts Gymnasium environments into words."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import gymnasium as gym
import numpy as np
import pytest

import envs  # noqa: F401  (registers the ids)
from envs.games.frozen_lake import STEPS, FrozenLake, shortest_path
from envs.games.verbalised import Verbalised
from envs.types import Task, assistant


def play(env, replies, **options) -> tuple[list[float], dict]:
    env.reset(seed=0, options=options)
    rewards = []
    for reply in replies:
        _, reward, terminated, truncated, info = env.step(reply)
        rewards.append(reward)
        if terminated or truncated:
            break
    return rewards, info


def on(rows: str, **arguments) -> FrozenLake:
    """A lake with this map as its only task."""

    class OneLake(FrozenLake):
        def tasks(self, split: str) -> Sequence:
            return [Task(f"{split}/0", metadata={"map": rows})]

    return OneLake(style="short", **arguments)


LAKE = "SFFF/HHHF/FFFF/FHHG"


def test_each_turn_shows_the_map_with_the_player_in_twenty_bytes():
    env = on(LAKE)
    opening, _ = env.reset()
    assert opening == ({"role": "user", "content": "P...\n###.\n....\n.##G"},)
    messages, *_ = env.step("right")
    assert messages[0]["content"] == ".P..\n###.\n....\n.##G"
    assert len(messages[0]["content"].encode()) < 20


def test_the_goal_pays_one_and_ends_the_episode():
    rewards, info = play(on(LAKE), ["right"] * 3 + ["down"] * 3)
    assert rewards == [0, 0, 0, 0, 0, 1]
    assert (info["success"], info["stop"]) == (True, "terminated")


def test_a_hole_pays_nothing_and_ends_the_episode():
    rewards, info = play(on(LAKE), ["right", "down"])
    assert rewards == [0, 0]
    assert (info["success"], info["stop"]) == (False, "terminated")


def test_walking_against_the_edge_stays_and_costs_a_turn():
    rewards, info = play(on(LAKE), ["up"] * 50)
    assert len(rewards) == 12
    assert (info["success"], info["stop"], info["valid"]) == (False, "turn_limit", True)
    assert info["state"] == "P.../###./..../.##G"


@pytest.mark.parametrize(
    "reply",
    ["right", " Right.\n", "I go **right**", "up is bad\nso: right", "#### right", "\\boxed{right}", "right right"],
)
def test_a_reply_means_the_one_action_its_last_line_names(reply):
    env = on(LAKE)
    env.reset()
    *_, info = env.step(reply)
    assert (info["valid"], info["state"]) == (True, ".P../###./..../.##G")


@pytest.mark.parametrize(
    "reply", ["", "right or down", "rightly", "go", "rr", "not right", "left|down|right|up", "right\ndown or up"]
)
def test_a_reply_that_names_no_action_or_several_is_invalid_and_costs_a_turn(reply):
    env = on(LAKE)
    env.reset()
    messages, reward, terminated, _, info = env.step(reply)
    assert (reward, terminated, info["valid"]) == (0, False, False)
    assert messages[0]["content"] == "left|down|right|up?\nP...\n###.\n....\n.##G"
    assert env.turns == 1


def test_no_map_stands_in_two_splits_and_held_out_maps_stand_once():
    env = FrozenLake(style="short")
    maps = {split: [task.metadata["map"] for task in env.load(split)[:2000]] for split in ("train", "val", "test")}
    assert len(set(maps["val"])) == len(maps["val"]) == 200
    assert len(set(maps["test"])) == len(maps["test"]) == 200
    assert not set(maps["train"]) & set(maps["test"])
    assert not set(maps["train"]) & set(maps["val"])
    assert not set(maps["val"]) & set(maps["test"])


@pytest.mark.parametrize("size", [3, 4, 6])
def test_the_oracle_crosses_every_test_lake_on_a_shortest_path(size):
    env = FrozenLake(style="short", size=size)
    for index, task in enumerate(env.load("test")):
        env.reset(options={"split": "test", "index": index})
        moves = 0
        for reply in env.oracle():
            moves += 1
            *_, terminated, truncated, info = env.step(reply)
            if terminated or truncated:
                break
        assert info["success"]
        assert moves == len(shortest_path(task.metadata["map"].split("/"), 0)) <= env.max_turns - 2


def test_the_oracle_finds_the_goal_from_where_others_left_the_player():
    env = on(LAKE)
    env.reset()
    for move in ("right", "right", "left"):
        env.step(move)
    rewards = []
    for reply in env.oracle():
        _, reward, terminated, *_ = env.step(reply)
        rewards.append(reward)
        if terminated:
            break
    assert rewards == [0, 0, 0, 0, 1]


def test_a_shortest_path_goes_round_the_holes_or_is_empty():
    assert shortest_path(["SHF", "FHF", "FFG"], 0) == ["down", "down", "right", "right"]
    assert shortest_path(["SHF", "HHF", "FFG"], 0) == []
    assert shortest_path(["SFF", "FFF", "FFG"], 8) == []


def test_walking_at_random_or_by_heart_wins_few_lakes():
    env = FrozenLake(style="short")
    rng = np.random.default_rng(0)
    wins = {"random": 0, "by heart": 0}
    for index in range(100):
        for name in wins:
            route = iter(["right", "down"] * 6)
            env.reset(seed=index, options={"split": "test", "index": index})
            done = False
            while not done:
                *_, terminated, truncated, info = env.step(env.random(rng) if name == "random" else next(route))
                done = terminated or truncated
            wins[name] += info["success"]
    assert wins["random"] < 10
    assert wins["by heart"] < 40


def test_tasks_depend_on_nothing_but_the_arguments():
    maps = [FrozenLake(style="short", max_seconds=limit).load("test")[7].metadata["map"] for limit in (1e6, 1e7)]
    assert maps[0] == maps[1]
    assert len(FrozenLake(style="short", size=5).load("test")[0].metadata["map"]) == 29


def test_slips_follow_the_episodes_seed():
    def walk(seed):
        env = FrozenLake(style="short", slippery=True)
        env.reset(seed=seed, options={"split": "test", "index": 0})
        states = []
        for _ in range(6):
            *_, terminated, _, info = env.step("right")
            states.append(info["state"])
            if terminated:
                break
        return states

    walks = [walk(seed) for seed in range(8)]
    assert walk(3) == walks[3]
    assert len(set(map(tuple, walks))) > 1


def test_the_rules_are_told_to_models_that_ask_for_them():
    opening, _ = FrozenLake(style="v1").reset(seed=0)
    assert [message["role"] for message in opening] == ["system", "user"]
    assert "Reach G" in opening[0]["content"]


def test_a_size_without_enough_maps_is_refused():
    with pytest.raises(ValueError, match=r"size 2 is outside 3\.\.10"):
        FrozenLake(style="short", size=2)


def test_it_is_the_real_gymnasium_environment_without_pygame():
    before = "pygame" in sys.modules
    env = gym.make("games/FrozenLake-v0").unwrapped
    env.reset(seed=0)
    assert env.inner.unwrapped.spec.id == "FrozenLake-v1"
    assert list(STEPS) == ["left", "down", "right", "up"]
    assert ("pygame" in sys.modules) is before
    env.close()
    assert env.inner is None


class CliffWalking(Verbalised):
    game, actions, max_turns = "CliffWalking-v1", ("up", "right", "down", "left"), 30

    def describe(self, observation):
        return "row {} column {}".format(*divmod(int(observation), 12))

    def is_won(self, reward, terminated):
        return terminated

    def oracle(self):
        yield from map(assistant, ["up", *["right"] * 11, "down"])


class Taxi(Verbalised):
    game, max_turns = "Taxi-v4", 60
    actions = ("south", "north", "east", "west", "pick up", "drop off")
    max_return = 20.0

    def describe(self, observation):
        return "row {} column {} passenger {} goal {}".format(*self.inner.unwrapped.decode(int(observation)))

    def turn_reward(self, reward, is_won):
        return reward


def test_another_environment_is_put_into_words_in_a_few_lines():
    env = CliffWalking()
    assert env.reset(seed=0)[0][0]["content"] == "row 3 column 0"
    assert env.step("up")[0][0]["content"] == "row 2 column 0"
    env.reset(seed=0)
    rewards = [env.step(reply)[1] for reply in env.oracle()]
    assert rewards == [0] * 12 + [1]


def test_another_environments_rewards_can_be_passed_on_and_its_actions_may_have_two_words():
    env = Taxi()
    opening, _ = env.reset(seed=0, options={"split": "test", "index": 3})
    again, _ = Taxi().reset(seed=99, options={"split": "test", "index": 3})
    assert opening == again
    *_, reward, _, _, info = env.step("I pick up")
    assert reward in (-1.0, -10.0)
    assert info["valid"]


def test_wrong_names_or_unnameable_actions_are_refused_with_what_is_wrong():
    class TooFew(CliffWalking):
        actions = ("up", "down")

    class Cart(CliffWalking):
        game = "MountainCarContinuous-v0"

    with pytest.raises(ValueError, match="CliffWalking-v1 has 4 actions, but 2 names"):
        TooFew().reset()
    with pytest.raises(TypeError, match="only Discrete has names"):
        Cart().reset()
