"""Leduc poker: known values of the whole game, equal to OpenSpiel's, payoffs of single hands, and what a seat reads."""

import pytest

from envs.multi.game_tree import build_tree, expected_value, exploitability, information_states, uniform
from envs.multi.leduc import DEALS, Leduc
from envs.types import text


@pytest.fixture(scope="module")
def tree():
    return build_tree(Leduc(style="short"))


def deal(env, cards):
    index = next(i for i, task in enumerate(env.load("train")) if task.metadata["deal"] == cards)
    env.reset(seed=0, options={"split": "train", "index": index})


def test_uniform_play_has_the_known_value_and_exploitability(tree):
    """By OpenSpiel 2.0.2 (`leduc_poker`)."""
    assert expected_value(tree, uniform) == pytest.approx(-0.078125, abs=1e-9)
    assert exploitability(tree, uniform) == pytest.approx(2.373611111111111, abs=1e-9)


def test_the_information_states_are_those_of_the_game_by_ranks(tree):
    states = information_states(tree)
    assert len(states) == 288
    assert states["Q"] == ("check", "bet") and states["Qcrrc/K/cr"] == ("fold", "call", "raise")
    assert states["Qrr"] == ("fold", "call")


@pytest.mark.parametrize(
    ("cards", "words", "payoff"),
    [
        ("KJQ", ["check", "check", "check", "check"], 1),
        ("KJJ", ["check", "check", "check", "check"], -1),  # the pair wins
        ("QQJ", ["bet", "raise", "call", "bet", "raise", "call"], 0),
        ("KJQ", ["bet", "raise", "call", "bet", "raise", "call"], 13),
        ("KJJ", ["check", "bet", "raise", "call", "check", "bet", "raise", "call"], -13),
        ("KJQ", ["bet", "fold"], 1),
        ("KJQ", ["check", "bet", "fold"], -1),
        ("KJQ", ["bet", "raise", "fold"], -3),
        ("KJQ", ["bet", "call", "check", "bet", "fold"], -3),
        ("KJQ", ["bet", "call", "bet", "raise", "fold"], -7),
        ("KJQ", ["bet", "?", "?"], 1),  # who says nothing legal twice folds
        ("KJQ", ["bet", "raise", "?", "?"], -3),
    ],
)
def test_a_hand_pays_what_the_rules_say(cards, words, payoff):
    env = Leduc(style="short")
    deal(env, cards)
    for word in words:
        assert env.to_move
        env.step(word)
    assert all(env.terminations.values())
    assert env._cumulative_rewards == {"player_0": payoff, "player_1": -payoff}


def test_the_deals_are_those_of_a_shuffled_deck():
    env = Leduc()
    assert sum(env.deals.values()) == pytest.approx(1) and len(env.deals) == 24
    assert env.deals["JJQ"] == pytest.approx(4 / 120) and env.deals["JQK"] == pytest.approx(8 / 120)
    numbers = [task.metadata["deal"] for split in ("train", "val", "test") for task in env.load(split)]
    assert all(numbers.count(cards) == len(numbers) * DEALS.count(cards) // len(DEALS) for cards in env.deals)


@pytest.mark.parametrize("style", ["full", "short"])
def test_what_a_seat_reads_is_its_information_state_and_no_more(style):
    """The same information state reads the same whatever the other cards are, and different ones read differently."""
    env, read = Leduc(style=style), {}
    for cards in env.deals:
        for words in (
            ["check", "bet", "raise", "call", "bet", "call"],
            ["bet", "call", "check", "bet", "raise", "call"],
        ):
            deal(env, cards)
            for word in words:
                seat = env.agent_selection
                shown = text(env.observe(seat)[-1]).split("Your hand:\n")[-1]
                assert read.setdefault(env.information(seat), shown) == shown
                env.step(word)
    assert len(set(read.values())) == len(read)
