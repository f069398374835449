"""gem-llm: games that draw from the process's generators, played in turns and beside them."""

import random
import re

import numpy as np
import pytest

import envs
from tests.support.games import step_replies
from tests.support.interop import needs, train_and_evaluate

pytestmark = needs("gem", "gem")
GUESS, SLIDE = "gem:game:GuessTheNumber-v0-easy", "gem:game:Game2048-v0-easy"
MOVES = [f"\\boxed{{{move}}}" for move in ("right", "down", "left", "up")] * 4


def episode(env, other=None, seed=1):
    log = [env.reset(seed=seed, options={"split": "train", "index": 0})[0]]
    if other:
        other.reset(seed=2, options={"split": "train", "index": 1})
    for move in MOVES:
        log.append(env.step(move)[:4])
        if other:
            other.step(move)
            random.seed(5), np.random.seed(5)  # noqa: NPY002
    return log


def test_games_in_turns_do_not_disturb_each_other_nor_the_process():
    one, other = envs.make(SLIDE), envs.make(SLIDE)
    random.seed(3), np.random.seed(3)  # noqa: NPY002
    expected = random.Random(3).random(), np.random.RandomState(3).random()
    alone = episode(one)
    assert (random.random(), np.random.random()) == expected  # noqa: NPY002
    assert episode(one, other) == episode(envs.make(SLIDE)) == alone
    assert len({turn[0][-1]["content"] for turn in alone[1:] if turn[0]}) > 5


def test_a_game_is_won_by_its_number_and_lost_by_the_last_guess():
    env = envs.make(GUESS)
    rules, task = env.reset(seed=0)[0]
    assert "You may think first" in rules["content"] and "4 turns" in rules["content"]
    assert task["content"].rstrip().endswith("Enter your next guess.")
    number = env.inner.game_number
    turn = env.step(f"Let me guess.\n\\boxed{{{number}}}")
    assert turn[1:4] == (1.0, True, False) and turn[4]["success"]
    env.reset(seed=0)
    wrong = [n for n in range(1, 11) if n != number][:4]
    turns = step_replies(env, [f"\\boxed{{{n}}}" for n in wrong])
    assert len(turns) == 4 and 0 < turns[-1][1] < 1 and turns[-1][2] and not turns[-1][4]["success"]


def test_the_short_style_is_the_task_alone():
    assert len(envs.make(GUESS, style="short").reset(seed=0)[0]) == 1


@pytest.mark.parametrize("spec", [GUESS, SLIDE, "gem:game:Mastermind-v0-easy", "gem:rg:chain_sum"])
def test_same_seed_same_episode_and_random_replies(spec):
    def play(env):
        rng, log = np.random.default_rng(0), [env.reset(seed=1)[0]]
        for _ in range(5):
            log.append(env.step(env.random(rng)))
            if log[-1][2] or log[-1][3]:
                break
        return log

    assert play(envs.make(spec)) == play(envs.make(spec))


@pytest.mark.parametrize("junk", ["", "no", "\\boxed{}", "\\boxed{999}", "\x00\ud800", "\\boxed{" * 1000])
def test_junk_is_no_fault_and_no_win(junk):
    env = envs.make(GUESS)
    env.reset(seed=0)
    turn = env.step(junk)
    assert turn[1] <= 0 and not turn[4].get("success")


def test_tasks_differ_by_seed():
    env = envs.make("gem:rg:chain_sum")
    tasks = {env.reset(seed=0, options={"split": "train", "index": i})[0][-1]["content"] for i in range(10)}
    assert len(tasks) > 5 and all(re.search(r"\d", task) for task in tasks)


def test_an_unknown_game_is_an_error_of_one_line():
    with pytest.raises(ValueError, match="did you mean 'game:GuessTheNumber-v0-easy'") as error:
        envs.make("gem:game:GuesTheNumber-v0-easy")
    assert "\n" not in str(error.value)


def test_no_turn_at_all_is_no_limit():
    with pytest.raises(ValueError, match="max_turns must be at least 1, not 0"):
        envs.make(GUESS, max_turns=0)


def test_a_game_trains_and_evaluates(tmp_path):
    train_and_evaluate(tmp_path, GUESS, "max_turns=3", max_tokens=1536)
