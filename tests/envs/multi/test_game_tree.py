"""Exact values of a game tree: best responses to fixed policies, and policies that are none."""

import pytest

from envs.multi.game_tree import (
    best_response_value,
    build_tree,
    expected_value,
    information_states,
)
from envs.multi.kuhn import Kuhn


@pytest.fixture(scope="module")
def tree():
    return build_tree(Kuhn(style="short"))


def always(*wishes):
    return lambda information, words: [float(word in wishes) for word in words]


def test_the_best_reply_to_one_who_always_folds_and_checks_bets(tree):
    passive = always("check", "fold")
    assert expected_value(tree, passive) == pytest.approx(0)
    assert best_response_value(tree, passive, 0) == pytest.approx(1)  # bet each hand, and win each ante
    assert best_response_value(tree, passive, 1) == pytest.approx(1)


def test_the_best_reply_to_one_who_always_bets_calls_with_the_queen_and_the_king(tree):
    """Facing a bet: the jack folds and loses 1; the queen wins or loses 2 as often; the king wins 2."""
    assert best_response_value(tree, always("bet", "call"), 1) == pytest.approx((-1 + 0 + 2) / 3)


def test_kuhn_poker_has_twelve_information_states(tree):
    assert sorted(information_states(tree)) == sorted(card + h for card in "JQK" for h in ("", "p", "b", "pb"))


@pytest.mark.parametrize("odds", [[1.0], [0.5, 0.6], [1.5, -0.5], [float("nan"), 1.0]])
def test_numbers_that_are_no_probabilities_are_refused_by_the_state(tree, odds):
    with pytest.raises(ValueError, match=r"J: .* are no probabilities of check, bet"):
        expected_value(tree, lambda information, words: odds)


def test_a_seat_that_does_not_exist_is_refused(tree):
    with pytest.raises(ValueError, match="seat 2 is neither 0 nor 1"):
        best_response_value(tree, always("check"), 2)


def by_seat(first, second):
    """What the first seat does by one policy, the second by another; the first knows an even number of moves."""
    return lambda information, words: (first if len(information) % 2 else second)(information, words)
