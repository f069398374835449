"""Wordle: marks by the rule, a solver that only knows them, replies read with care."""

from collections import Counter
from math import log2

import pytest

from envs.games.wordle import ROWS, Wordle, mark_guess
from envs.games.words import LENGTHS, words
from tests.support.games import is_won, obs_text, play_oracle, random_win_rate, step_replies


def opened(index=0, **arguments):
    env = Wordle(style="short", **arguments)
    opening, info = env.reset(seed=0, options={"split": "test", "index": index})
    return env, opening[-1]["content"], info


@pytest.mark.parametrize(
    "guess, secret, marks",
    [
        ("CRANE", "CRATE", "ggg-g"),
        ("SPEED", "ERASE", "y-yy-"),
        ("ALLOY", "LLAMA", "ygy--"),
        ("EERIE", "THREE", "y-g-g"),
        ("LEVEL", "HELLO", "yg--y"),
        ("EAT", "TEA", "yyy"),
        ("TEA", "TEA", "ggg"),
        ("OOO", "FOG", "-g-"),
    ],
)
def test_repeated_letters_are_marked_as_often_as_the_word_has_them(guess, secret, marks):
    assert mark_guess(guess, secret) == marks


def test_the_marks_of_a_guess_agree_with_counting_letters():
    some = words(5)[::23]
    for guess in some:
        for secret in some:
            marks, common = mark_guess(guess, secret), Counter(guess) & Counter(secret)
            assert [mark == "g" for mark in marks] == [a == b for a, b in zip(guess, secret, strict=True)]
            assert len(marks.replace("-", "")) == sum(common.values())


@pytest.mark.parametrize("letters", LENGTHS)
def test_the_lists_hold_different_words_of_one_length_in_order(letters):
    word_list = words(letters)
    assert len(word_list) >= 200
    assert list(word_list) == sorted(set(word_list))
    assert all(len(word) == letters and word.isascii() and word.isupper() for word in word_list)


@pytest.mark.parametrize(
    "arguments", [{}, {"opened": False}, {"words": 0, "opened": False}, {"letters": 4}, {"letters": 3, "words": 60}]
)
def test_the_oracle_wins_every_test_task_by_what_the_marks_tell(arguments):
    env = Wordle(style="short", **arguments)
    for index in range(len(env.load("test"))):
        assert is_won(play_oracle(env, index))


def test_the_oracle_guesses_the_same_as_long_as_the_answers_are_the_same():
    env, secrets = Wordle(style="short", opened=False), {}
    for index in range(len(env.load("test"))):
        env.reset(options={"split": "test", "index": index})
        answers = []
        for reply in env.oracle():
            assert secrets.setdefault(tuple(answers), reply["content"]) == reply["content"]
            messages, _, terminated, *_ = env.step(reply)
            if terminated:
                break
            answers.append(messages[0]["content"])
    assert len(secrets) > 10


def test_a_task_is_an_opening_guess_and_another_secret():
    env, observation, info = opened(4)
    guess, marks = observation.split()
    assert guess == env.task.metadata["opening"] != info["answer"]
    assert marks == mark_guess(guess, info["answer"])
    assert len(observation) == 11
    assert {split: len(env.load(split)) for split in ("train", "val", "test")} == {
        "train": 3129,
        "val": 403,
        "test": 500,
    }
    assert opened(0, opened=False)[1] == "5 letters"


def test_the_answer_is_short_and_the_metrics_say_what_it_told():
    env, observation, info = opened(2)
    before = env.remaining.bit_count()
    other = next(word for word in env.candidates().secrets if word not in (info["answer"], observation.split()[0]))
    (turn,) = step_replies(env, [other])
    assert obs_text(turn) == mark_guess(other, info["answer"])
    fit = [
        word
        for word in env.candidates().secrets
        if mark_guess(observation.split()[0], word) == observation.split()[1]
        and mark_guess(other, word) == obs_text(turn)
    ]
    assert turn[4]["metrics"] == {"left": len(fit), "bits": pytest.approx(log2(before / len(fit)))}
    assert turn[4]["valid"] and turn[1] == 0.0


def test_the_state_is_what_is_known_whatever_the_order():
    states = []
    for way in (("PLATE", "STORM"), ("STORM", "PLATE"), ("PLATE", "PLATE")):
        env, *_ = opened(1)
        states.append(step_replies(env, way)[-1][4]["state"])
    assert states[0] == states[1] != states[2]
    assert states[0].endswith(f" {env.max_turns - 2}")


@pytest.mark.parametrize(
    "reply",
    [
        "crane",
        " Crane\n",
        "I think of stone or crane.\nMy guess is CRANE.",
        "guess: crane",
        "**crane**, surely",
        "[Crane]",
    ],
)
def test_a_guess_may_stand_in_a_sentence(reply):
    assert Wordle(style="short").parse_guess(reply) == "CRANE"


@pytest.mark.parametrize(
    "reply", ["", "cranes", "cran", "CRANE or STONE", "my guess", "CRANE STONE", "cr4ne", "CRANE\nhm", "cr\u00e4ne"]
)
def test_what_names_no_word_or_several_is_invalid_and_costs_a_turn(reply):
    env, *_ = opened(0)
    (turn,) = step_replies(env, [reply])
    assert obs_text(turn) == "5 letters?"
    assert turn[4]["valid"] is False and turn[1] == 0.0 and turn[4]["metrics"]["bits"] == 0.0
    assert env.turns == 1


def test_a_word_that_is_not_in_the_list_is_a_guess():
    env, _, info = opened(0)
    (turn,) = step_replies(env, ["QZXVJ"])
    assert turn[4]["valid"] and obs_text(turn) == mark_guess("QZXVJ", info["answer"])


def test_turns_run_out_as_in_the_original():
    env, *_ = opened(0)
    turns = step_replies(env, ["QZXVJ"] * 9)
    assert len(turns) == ROWS[5] - 1
    assert turns[-1][4]["stop"] == "turn_limit" and turns[-1][4]["success"] is False
    assert (
        Wordle(style="short", opened=False).max_turns == 6
        and Wordle(style="short", letters=3).max_turns == 7
        and Wordle(style="short", max_turns=2).max_turns == 2
    )


def test_random_words_win_seldom():
    assert random_win_rate(Wordle(style="short"), 200) < 0.15


def test_the_rules_are_told_to_models_that_ask_for_them():
    opening, _ = Wordle(style="v1").reset(seed=0)
    assert [message["role"] for message in opening] == ["system", "user"]
    assert "5 letters" in opening[0]["content"] and "5 guesses" in opening[0]["content"]


@pytest.mark.parametrize("arguments", [{"letters": 6}, {"words": 9}, {"words": 1000}, {"letters": True}])
def test_impossible_arguments_are_named(arguments):
    with pytest.raises(ValueError, match=f"{next(iter(arguments))} {next(iter(arguments.values()))} is outside"):
        Wordle(style="short", **arguments)
