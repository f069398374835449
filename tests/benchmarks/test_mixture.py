"""Policies that draw one of several before a game."""

import pytest

from benchmarks.seats.mixture import mixture
from envs.multi.game_tree import build_tree, expected_value, exploitability
from envs.multi.kuhn import Kuhn


@pytest.fixture(scope="module")
def tree():
    return build_tree(Kuhn(style="short"))


def always(*wishes):
    return lambda information, words: [float(word in wishes) for word in words]


def by_seat(first, second):
    """What the first seat does by one policy, the second by another; the first knows an even number of moves."""
    return lambda information, words: (first if len(information) % 2 else second)(information, words)


def test_a_mixture_of_one_is_that_policy_and_a_mixture_plays_as_one_drawn_before_the_game(tree):
    bold, timid = always("bet", "call"), always("check", "fold")
    assert exploitability(tree, mixture(tree, [bold])) == pytest.approx(exploitability(tree, bold))
    both = mixture(tree, [bold, timid])
    drawn = [expected_value(tree, by_seat(first, second)) for first in (bold, timid) for second in (bold, timid)]
    assert expected_value(tree, both) == pytest.approx(sum(drawn) / 4)


def test_in_a_mixture_a_policy_weighs_as_much_as_its_own_moves_lead_to_the_state(tree):
    """Of the two, only the timid one checks first: whoever faces a bet after a check is that one, and folds."""
    both = mixture(tree, [always("bet", "call"), always("check", "fold")])
    assert both("K", ("check", "bet")) == [0.5, 0.5]
    assert both("Kpb", ("call", "fold")) == [0.0, 1.0]
    assert both("Kb", ("call", "fold")) == [0.5, 0.5]
    bold = mixture(tree, [always("bet", "call")])
    assert bold("Kpb", ("call", "fold")) == [0.5, 0.5]  # which it never reaches
