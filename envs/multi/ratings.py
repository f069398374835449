"""Ratings of players from the games between them, and the cross-play table of their scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

ELO_SCALE = 400  # points for odds of ten to one
MAX_PASSES, TOLERANCE = 10_000, 1e-10


@dataclass(frozen=True, slots=True)
class Game:
    """The result of one game: `score` is 1 if `first` has won, 0 if `second` has, 0.5 for a draw."""

    first: str
    second: str
    score: float


@dataclass(frozen=True, slots=True)
class Rating:
    """Points of a player, on the scale of Elo, with the bounds of its interval. The mean over all players is 0."""

    points: float
    low: float
    high: float


def cross_play(games: Sequence[Game]) -> dict[tuple[str, str], tuple[float, int]]:
    """Return the mean score and the number of games of each ordered pair of players that have met.

    Each game counts once for (first, second) and once, with the other's score, for (second, first).
    """
    scores: dict[tuple[str, str], list[float]] = {}
    for game in games:
        scores.setdefault((game.first, game.second), []).append(game.score)
        scores.setdefault((game.second, game.first), []).append(1 - game.score)
    return {pair: (sum(values) / len(values), len(values)) for pair, values in scores.items()}


def bradley_terry(
    games: Sequence[Game], rng: np.random.Generator, *, prior: float = 0.5, level: float = 0.95, draws: int = 200
) -> dict[str, Rating]:
    """Return ratings by the model of Bradley and Terry (1952), fitted by minorise-maximise (Hunter 2004).

    Args:
        games: Results, in any order. A draw counts as half a win for each.
        rng: Generator of the intervals, which resample whole games (percentile bootstrap).
        prior: Wins that each player is assumed to have had against each other one. It keeps the rating of a player who
            has won all games finite.
        level: Share of the intervals.
        draws: Number of resampled lists of games.

    Raises:
        ValueError: No games, a player against itself, a score outside 0..1, or a `prior` that is not above 0.
    """
    if not games:
        raise ValueError("no games to rate")
    if not prior > 0:
        raise ValueError(f"prior {prior} must be above 0")
    for game in games:
        if game.first == game.second:
            raise ValueError(f"{game.first} plays against itself")
        if not 0 <= game.score <= 1:
            raise ValueError(f"score {game.score} of {game.first} against {game.second} is outside 0..1")
    names = sorted({name for game in games for name in (game.first, game.second)})
    rows = {name: row for row, name in enumerate(names)}
    first, second = (np.array([rows[getattr(game, side)] for game in games]) for side in ("first", "second"))
    scores = np.array([game.score for game in games], dtype=float)

    def fit(sample: np.ndarray) -> np.ndarray:
        wins = prior * (1 - np.eye(len(names)))
        np.add.at(wins, (first[sample], second[sample]), scores[sample])
        np.add.at(wins, (second[sample], first[sample]), 1 - scores[sample])
        return _points(wins)

    points = fit(np.arange(len(games)))
    samples = [fit(rng.integers(len(games), size=len(games))) for _ in range(draws)]
    low, high = np.quantile(samples, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return {name: Rating(float(points[i]), float(low[i]), float(high[i])) for name, i in rows.items()}


def _points(wins: np.ndarray) -> np.ndarray:
    """Elo points around 0 of the strengths that make `wins`, (players, players), most likely."""
    matches, strength = wins + wins.T, np.ones(len(wins))
    for _ in range(MAX_PASSES):
        next_strength = wins.sum(1) / (matches / (strength[:, None] + strength)).sum(1)
        next_strength /= np.exp(np.log(next_strength).mean())
        is_done = np.abs(np.log(next_strength / strength)).max() < TOLERANCE
        strength = next_strength
        if is_done:
            break
    return ELO_SCALE * np.log10(strength)
