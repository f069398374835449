"""GuessNumber: truthful feedback, bisection in time, canonical states."""

from math import log2

import numpy as np
import pytest

from envs.games.guess_number import GuessNumber


def opened(secret_place=3, **arguments):
    """An episode on a test task whose secret is that many above the low end, and its bounds."""
    env = GuessNumber(style="short", **{"size": 15, **arguments})
    for index, task in enumerate(env.load("test")):
        low = task.metadata["low"]
        if int(task.answer) - low == secret_place:
            env.reset(seed=0, options={"split": "test", "index": index})
            return env, low
    raise LookupError


@pytest.mark.parametrize(
    "arguments",
    [{}, {"size": 2, "top": 40}, {"size": 16, "top": 60}, {"size": 31, "top": 99}, {"size": 100, "top": 200}],
)
def test_bisection_wins_every_test_task_within_the_limit_and_needs_it_all(arguments):
    env = GuessNumber(style="short", **arguments, spare=0)
    longest = 0
    for index in range(len(env.load("test"))):
        env.reset(seed=0, options={"split": "test", "index": index})
        bits = 0.0
        for reply in env.oracle():
            _, reward, terminated, truncated, info = env.step(reply)
            bits += info["metrics"]["bits"]
            if terminated or truncated:
                break
        assert reward == 1.0 and info["success"] and not truncated
        assert bits == pytest.approx(log2(env.size))
        longest = max(longest, env.turns)
    assert longest == env.max_turns == env.size.bit_length()


def test_feedback_is_truthful_short_and_narrows_the_state():
    env, low = opened(3, spare=0, remind=False)
    assert env.state() == f"{low}..{low + 14} 4"
    messages, reward, _, _, info = env.step(str(low + 7))
    assert messages[0]["content"] == "lower" and reward == 0.0 and info["rewards"] == {"win": 0.0}
    assert info["state"] == f"{low}..{low + 6} 3"
    assert info["metrics"] == {"width": 7.0, "bits": pytest.approx(log2(15 / 7))}
    messages, _, _, _, info = env.step(f"I try {low}")
    assert messages[0]["content"] == "higher" and info["state"] == f"{low + 1}..{low + 6} 2"
    _, reward, terminated, _, info = env.step(str(low + 3))
    assert terminated and reward == 1.0 and info["rewards"] == {"win": 1.0} and info["success"]


def test_by_default_the_answer_names_the_interval_still_possible():
    env, low = opened(3)
    assert env.step(str(low + 7))[0][0]["content"] == f"{low}..{low + 6}"
    assert env.step("nothing")[0][0]["content"] == f"{low}..{low + 6}!"


def test_the_state_does_not_remember_the_way_there():
    ways = [(7, 1), (1, 7)]
    states = []
    for way in ways:
        env, low = opened(3)
        states += [[env.step(str(low + guess))[4]["state"] for guess in way][-1]]
    assert states[0] == states[1]


@pytest.mark.parametrize("reply", ["", "no number", "1000", "-1", "{low} {high}", "{low}.0"])
def test_an_invalid_reply_costs_a_turn_and_says_so(reply):
    env, low = opened(3, spare=0)
    messages, reward, terminated, truncated, info = env.step(reply.format(low=low, high=low + 14))
    assert messages[0]["content"] == f"{low}..{low + 14}!"
    assert info["valid"] is False and reward == 0.0 and not terminated and not truncated
    assert info["state"] == f"{low}..{low + 14} 3" and info["metrics"]["bits"] == 0.0


def test_a_guess_already_ruled_out_gains_nothing_but_is_valid():
    env, low = opened(3, remind=False)
    env.step(str(low + 7))
    messages, _, _, _, info = env.step(str(low + 9))
    assert messages[0]["content"] == "lower" and info["valid"] and info["metrics"]["bits"] == 0.0


def test_turns_run_out_as_a_truncation_and_spare_turns_add_to_them():
    env, low = opened(3, spare=2)
    ends = [env.step(str(low))[2:4] for _ in range(6)]
    assert ends == [(False, False)] * 5 + [(False, True)]
    assert GuessNumber(style="short", max_turns=9).max_turns == 9


def test_prompts_take_a_dozen_bytes_and_the_answer_is_in_the_info():
    env = GuessNumber(style="short")
    messages, info = env.reset(seed=4)
    assert len(messages) == 1 and len(messages[0]["content"].encode()) <= 12
    low, high = map(int, messages[0]["content"].split(".."))
    assert low <= int(info["answer"]) <= high and high - low == 6


def test_random_guesses_win_sometimes_but_seldom():
    env, rng, wins = GuessNumber(style="short"), np.random.default_rng(0), 0
    for seed in range(300):
        env.reset(seed=seed)
        over = False
        while not over:
            _, reward, terminated, truncated, _ = env.step(env.random(rng))
            over = terminated or truncated
        wins += reward
    assert 30 < wins < 150


@pytest.mark.parametrize("arguments", [{"size": 1}, {"size": 91}, {"spare": -1}, {"size": 100, "top": 50}])
def test_impossible_arguments_are_named(arguments):
    with pytest.raises(ValueError, match=str(next(iter(arguments.values())))):
        GuessNumber(style="short", **arguments)
