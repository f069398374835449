"""Blackjack: the real game, hands that the best blind player wins, all of them in a row."""

import gymnasium
import numpy as np
import pytest

from envs.games.blackjack import (
    CARD_PROBABILITIES,
    HIT,
    POOL_SIZES,
    STICK,
    Blackjack,
    best_action,
    win_probabilities,
    winnable_seed,
)
from tests.support.games import is_won, obs_text, play_oracle, play_replies, random_win_rate, step_replies


def test_the_best_player_wins_as_often_as_the_chances_say():
    hands = [(a, b, card) for a in CARD_PROBABILITIES for b in CARD_PROBABILITIES for card in CARD_PROBABILITIES]
    expected = sum(
        CARD_PROBABILITIES[a]
        * CARD_PROBABILITIES[b]
        * CARD_PROBABILITIES[c]
        * max(win_probabilities(a + b, 1 in (a, b), c))
        for a, b, c in hands
    )
    game, wins, rng = gymnasium.make("Blackjack-v1", disable_env_checker=True), 0, np.random.default_rng(0)
    game.reset(seed=int(rng.integers(2**31)))
    for _ in range(3000):
        table, over = game.reset()[0], False
        while not over:
            table, reward, over, _, _ = game.step(best_action(table))
        wins += reward > 0
    assert expected == pytest.approx(0.432, abs=0.002)
    assert wins / 3000 == pytest.approx(expected, abs=0.03)  # 3.3 standard errors


@pytest.mark.parametrize(
    "table, action",
    [
        ((20, 10, 0), STICK),
        ((11, 6, 0), HIT),
        ((13, 10, 0), HIT),
        ((13, 2, 0), STICK),
        ((17, 7, 1), HIT),
        ((21, 1, 1), STICK),
    ],
)
def test_the_best_player_knows_the_book(table, action):
    assert best_action(table) == action


def test_chances_never_reach_one_and_sticking_low_wins_only_if_the_dealer_busts():
    assert 0.2 < win_probabilities(4, False, 10)[0] < 0.22  # the dealer busts with a ten in 21 of 100 hands
    assert all(0 <= share < 1 for total in range(4, 22) for share in win_probabilities(total, False, 5))


@pytest.mark.parametrize("hands", [1, 4])
def test_the_oracle_wins_every_task_and_sees_only_the_table(hands):
    env = Blackjack(hands=hands)
    for index in range(len(env.load("test"))):
        turns = play_oracle(env, index)
        assert is_won(turns) and turns[-1][4]["metrics"]["hands"] == hands


def test_a_hand_that_is_won_is_followed_by_the_next():
    env = Blackjack(hands=2, style="short")
    turns = play_oracle(env, 0)
    info = [obs_text(turn) for turn in turns]
    assert sum(words.startswith("won; ") for words in info) == 1 and info[-1] == ""
    points = [turn[4]["metrics"]["points"] for turn in turns]
    assert points == sorted(points) and {*points} | {0.0} == {0.0, 1.0, 2.0} and points[-1] == 2.0


def test_a_hand_that_is_lost_ends_the_episode():
    for index in range(20):
        turns = play_replies(Blackjack(), ["hit"] * 12, split="test", index=index)
        assert turns[-1][2] and not turns[-1][4]["success"] and sum(turn[1] for turn in turns) == 0.0
        metrics = turns[-1][4]["metrics"]
        assert metrics["points"] - metrics["hands"] in (-1.0, 0.0)


def test_the_table_is_told_in_a_few_characters():
    env = Blackjack(style="short")
    env.reset(seed=0)
    assert [env.describe(table) for table in [(15, 10, 0), (18, 1, 1)]] == ["15 v 10", "soft 18 v A"]
    turn = env.step("what?")
    assert (
        obs_text(turn).startswith("stick|hit?\n")
        and not turn[4]["valid"]
        and turn[4]["metrics"] == {"points": 0.0, "hands": 0.0}
    )


def test_no_hand_stands_in_two_splits_and_none_is_left_out():
    for hands in (1, 3):
        env = Blackjack(hands=hands)
        seeds = {
            split: {seed for task in env.load(split)[: POOL_SIZES["test"]] for seed in task.metadata["seeds"]}
            for split in ("train", "val", "test")
        }
        assert (
            not seeds["train"] & seeds["test"]
            and not seeds["train"] & seeds["val"]
            and not seeds["val"] & seeds["test"]
        )
        assert {winnable_seed("test", hand) for hand in range(POOL_SIZES["test"])} == seeds["test"]


def test_members_of_a_group_get_the_same_cards():
    first = play_replies(Blackjack(), ["hit"] * 3, seed=1, split="test", index=5)
    again = play_replies(Blackjack(), ["hit"] * 3, seed=2, split="test", index=5)
    assert [obs_text(turn) for turn in first] == [obs_text(turn) for turn in again]


def test_fair_hands_are_not_chosen_so_that_somebody_wins():
    env = Blackjack(hands=1, fair=True)
    wins = [play_oracle(env, index)[-1][4]["success"] for index in range(200)]
    assert 0.3 < np.mean(wins) < 0.6


def test_the_oracle_goes_on_from_what_others_left_and_chance_seldom_wins():
    env = Blackjack()
    env.reset(seed=0, options={"split": "test", "index": 1})
    assert is_won([*step_replies(env, ["?"]), *step_replies(env, env.oracle())])
    assert random_win_rate(env, 100) < 0.2


def test_impossible_arguments_are_named():
    with pytest.raises(ValueError, match=r"hands 0 is outside 1\.\.10"):
        Blackjack(hands=0)
