"""Mastermind: pegs by counting, minimax in time, codes read with care."""

from collections import Counter
from itertools import product

import pytest

from envs.games.candidates import Candidates
from envs.games.mastermind import Mastermind, score_guess
from tests.support.games import is_won, obs_text, play_oracle, random_win_rate, step_replies


def opened(index=0, **arguments):
    env = Mastermind(style="short", **arguments)
    opening, info = env.reset(seed=0, options={"split": "test", "index": index})
    return env, opening[-1]["content"], info


@pytest.mark.parametrize(
    "guess, code, answer",
    [
        ("123", "123", "+++"),
        ("123", "321", "+--"),
        ("112", "211", "+--"),
        ("111", "123", "+.."),
        ("123", "444", "..."),
        ("1122", "2211", "----"),
        ("1122", "1222", "+++."),
    ],
)
def test_pegs_count_right_places_then_right_digits(guess, code, answer):
    assert score_guess(guess, code) == answer


def test_pegs_are_the_same_both_ways_and_as_long_as_the_code():
    codes = ["".join(code) for code in product("123", repeat=3)]
    for guess in codes:
        for code in codes:
            answer = score_guess(guess, code)
            assert answer == score_guess(code, guess) and len(answer) == 3
            assert 3 - answer.count(".") == sum((Counter(guess) & Counter(code)).values())


@pytest.mark.parametrize("arguments", [{}, {"opened": False}, {"holes": 2, "colours": 6}, {"holes": 3, "colours": 6}])
def test_the_oracle_wins_every_test_task_by_what_the_pegs_tell(arguments):
    env = Mastermind(style="short", **arguments)
    for index in range(len(env.load("test"))):
        turns = play_oracle(env, index)
        assert is_won(turns)
        assert all(turn[4]["metrics"]["left"] >= 1 for turn in turns)


def test_the_classic_game_needs_no_more_than_six_guesses():
    env = Mastermind(style="short", holes=4, colours=6, opened=False)
    assert max(len(play_oracle(env, index)) for index in range(0, 259, 13)) <= 6


def test_a_guess_that_is_sure_to_win_in_time_is_found_outside_what_is_left():
    secrets = ["CAT", "BAT", "HAT", "RAT", "CHB"]
    candidates = Candidates(
        secrets, lambda guess, secret: "".join("gy"[a != b] for a, b in zip(guess, secret, strict=True))
    )
    assert candidates.best_guess(0b01111, 4) in secrets[:4]
    assert candidates.best_guess(0b00001, 1) == "CAT"

    def shared(guess, secret):
        return f"{guess == secret}{sum(letter in guess for letter in secret)}{guess[0] in secret}{guess[1] in secret}"

    assert Candidates(secrets, shared).best_guess(0b01111, 2) == "CHB"


def test_a_task_is_an_opening_guess_and_another_code():
    env, observation, info = opened(3)
    guess, answer = observation.split()
    assert guess != info["answer"] and answer == score_guess(guess, info["answer"])
    assert len(env.load("test")) == 500 and opened(0, opened=False)[1] == "3 digits 1-4"


def test_the_state_is_what_is_known_whatever_the_order():
    states = []
    for way in (("112", "443"), ("443", "112"), ("112", "112")):
        env, *_ = opened(1)
        states.append(step_replies(env, way)[-1][4]["state"])
    assert states[0] == states[1] != states[2]


@pytest.mark.parametrize(
    "reply", ["213", " 213.", "2 1 3", "2, 1, 3", "2-1-3", "first I thought 111\nso 213", "213 213"]
)
def test_a_code_may_stand_in_a_sentence(reply):
    assert Mastermind(style="short").parse_guess(reply) == "213"


@pytest.mark.parametrize(
    "reply", ["", "21", "2134", "215", "013", "213 or 214", "2.13", "213, my 2nd guess", "1 2 3 4"]
)
def test_what_names_no_code_or_several_is_invalid_and_costs_a_turn(reply):
    env, *_ = opened(0)
    (turn,) = step_replies(env, [reply])
    assert obs_text(turn) == "3 digits 1-4?" and turn[4]["valid"] is False and turn[1] == 0.0
    assert env.turns == 1


def test_turns_run_out_and_random_codes_win_seldom():
    env, _, info = opened(0)
    wrong = "111" if info["answer"] != "111" else "222"
    assert step_replies(env, [wrong] * 9)[-1][4]["stop"] == "turn_limit" and env.turns == 6
    assert random_win_rate(env, 200) < 0.2


@pytest.mark.parametrize(
    "arguments, word",
    [
        ({"holes": 1}, "holes 1"),
        ({"colours": 10}, "colours 10"),
        ({"holes": 5, "colours": 6}, "7776 codes"),
        ({"holes": 2, "colours": 3}, "9 codes"),
    ],
)
def test_impossible_arguments_are_named(arguments, word):
    with pytest.raises(ValueError, match=word):
        Mastermind(style="short", **arguments)
