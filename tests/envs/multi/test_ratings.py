"""Ratings of players of known strength, a case with a closed form, and lists of games that cannot be rated."""

import numpy as np
import pytest

from envs.multi import Game, bradley_terry, cross_play

STRENGTHS = {"a": -200.0, "b": -50.0, "c": 0.0, "d": 100.0, "e": 150.0}


def simulated(rounds, rng):
    chance = lambda i, j: 1 / (1 + 10 ** ((STRENGTHS[j] - STRENGTHS[i]) / 400))  # noqa: E731
    pairs = [(i, j) for i in STRENGTHS for j in STRENGTHS if i < j]
    return [Game(i, j, float(rng.random() < chance(i, j))) for _ in range(rounds) for i, j in pairs]


def test_two_players_have_the_odds_of_their_games():
    games = [Game("a", "b", 1.0)] * 7 + [Game("b", "a", 1.0)] * 2 + [Game("a", "b", 0.5)]
    ratings = bradley_terry(games, np.random.default_rng(0), prior=0.5)
    assert ratings["a"].points - ratings["b"].points == pytest.approx(400 * np.log10(8 / 3), abs=1e-6)
    assert ratings["a"].points == pytest.approx(-ratings["b"].points)


def test_known_strengths_are_found_and_lie_in_their_intervals():
    ratings = bradley_terry(simulated(400, np.random.default_rng(1)), np.random.default_rng(0))
    for name, strength in STRENGTHS.items():
        assert ratings[name].points == pytest.approx(strength, abs=40)
        assert ratings[name].low < ratings[name].points < ratings[name].high


def test_one_who_has_won_every_game_has_a_finite_rating():
    ratings = bradley_terry([Game("a", "b", 1.0)] * 50, np.random.default_rng(0))
    assert 400 < ratings["a"].points - ratings["b"].points < 1000


def test_the_table_counts_each_game_for_both_players():
    table = cross_play([Game("a", "b", 1.0), Game("b", "a", 0.5), Game("a", "c", 0.0)])
    assert table["a", "b"] == (0.75, 2) and table["b", "a"] == (0.25, 2)
    assert table["c", "a"] == (1.0, 1) and ("b", "c") not in table


@pytest.mark.parametrize(
    ("games", "message"),
    [
        ([], "no games to rate"),
        ([Game("a", "a", 1.0)], "a plays against itself"),
        ([Game("a", "b", 2.0)], "score 2.0 of a against b is outside"),
    ],
)
def test_games_that_cannot_be_rated_are_refused_in_one_line(games, message):
    with pytest.raises(ValueError, match=message):
        bradley_terry(games, np.random.default_rng(0))
