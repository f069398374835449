"""MiniGrid: what is seen, read against the grid itself; an agent that reads nothing but the words wins."""

import re
from collections.abc import Iterator

import numpy as np
import pytest

import envs
from tests.support.games import play_replies, step_replies
from tests.support.interop import needs, train_and_evaluate

pytestmark = needs("minigrid", "minigrid")
DOOR_KEY = "gymnasium:MiniGrid-DoorKey-5x5-v0"


def things(text: str) -> Iterator[tuple[str, int, int]]:
    """Name, cells ahead and cells to the right of each thing in an observation."""
    for item in re.search(r"You see: (.*)\.", text)[1].split("; "):
        match = re.fullmatch(r"(?:an? )?(.+?)(?: (\d+) ahead)?,?(?: (\d+) (left|right))?", item)
        side = int(match[3] or 0)
        yield match[1], int(match[2] or 0), -side if match[4] == "left" else side


def test_everything_said_to_be_seen_lies_there():
    env, rng = envs.make("gymnasium:BabyAI-GoToRedBall-v0"), np.random.default_rng(0)
    checked = 0
    for seed in range(20):
        text = env.reset(seed=seed)[0][-1]["content"]
        for _ in range(10):
            world = env.inner.unwrapped
            for name, ahead, right in things(text) if "no things" not in text else ():
                x, y = np.array(world.agent_pos) + ahead * world.dir_vec + right * world.right_vec
                cell = world.grid.get(int(x), int(y))
                assert name == f"{cell.color} {cell.type}"
                checked += 1
            turn = env.step(env.random(rng))
            if turn[2] or turn[3]:
                break
            text = turn[0][-1]["content"]
    assert checked > 100


def test_free_cells_ahead_can_be_walked():
    env = envs.make("gymnasium:MiniGrid-Empty-8x8-v0")
    for seed in range(5):
        text = env.reset(seed=seed)[0][-1]["content"]
        free = int(re.search(r"Free ahead: (\d+)", text)[1])
        place = np.array(env.inner.unwrapped.agent_pos)
        step_replies(env, ["forward"] * (free + 1))
        assert np.abs(np.array(env.inner.unwrapped.agent_pos) - place).sum() == free


def test_a_door_needs_its_key_and_both_are_told():
    env = envs.make(DOOR_KEY)
    for seed in range(30):  # a world in which the key lies straight ahead, as far as one step
        text = env.reset(seed=seed)[0][-1]["content"]
        if re.search(r"key (\d) ahead[.;]", text):
            break
    assert "locked yellow door" in text and text.startswith("Mission: use the key to open the door")
    steps = int(re.search(r"key (\d) ahead[.;]", text)[1]) - 1
    turns = step_replies(env, [*["forward"] * steps, "pickup"])
    assert "You carry: a yellow key." in turns[-1][0][0]["content"]


def test_a_reader_of_the_words_alone_reaches_the_goal():
    """Turn towards the goal that the observation names, walk while the way is free."""

    def reply(text: str) -> str:
        for name, ahead, right in things(text) if "no things" not in text else ():
            if name.endswith("goal"):
                if ahead and int(re.search(r"Free ahead: (\d+)", text)[1]):
                    return "forward"
                return "right" if right > 0 else "left"
        return "right"

    env = envs.make("gymnasium:MiniGrid-Empty-Random-6x6-v0")
    for seed in range(10):
        text, over = env.reset(seed=seed)[0][-1]["content"], False
        while not over:
            observation, reward, terminated, truncated, info = env.step(reply(text))
            text, over = observation[0]["content"] if observation else "", terminated or truncated
        assert info["success"] and reward > 0.5


def test_same_seed_same_episode_and_snapshots():
    env = envs.make(DOOR_KEY)
    assert play_replies(env, ["left", "forward", "pickup"]) == play_replies(env, ["left", "forward", "pickup"])
    moment = env.snapshot()
    first = step_replies(env, ["right", "forward", "toggle"])
    env.restore(moment)
    assert step_replies(env, ["right", "forward", "toggle"]) == first


@pytest.mark.parametrize("game", ["MiniGrid-Empty-5x5-v0", "BabyAI-GoToLocal-v0", "MiniGrid-LavaGapS5-v0"])
def test_the_opening_explains_every_action_and_sign(game):
    rules = envs.make(f"gymnasium:{game}").reset(seed=0)[0][0]["content"]
    for word in ("left", "right", "forward", "pickup", "drop", "toggle", "done", "ahead", "Free ahead", "last line"):
        assert word in rules


def test_minigrid_trains_and_evaluates(tmp_path):
    train_and_evaluate(tmp_path, "gymnasium:MiniGrid-Empty-5x5-v0", "max_turns=6", max_tokens=1024)
