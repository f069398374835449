"""Results of an evaluation in seats: by seat, of each pair of players, and ratings."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np

from rl.evaluate.metrics import metric_interval
from rl.evaluate.statistics import NO_ESTIMATE, Estimate, cluster_bootstrap
from rl.records import Group, Trajectory

if TYPE_CHECKING:
    from rl.evaluate.seats.matches import Match, MatchPlan


Value = Callable[[Trajectory], float]


@dataclass(frozen=True, slots=True)
class SeatRow:
    """What the policy did in one seat. `opponent` played the others: the policy itself where nobody else is named."""

    seat: str
    opponent: str
    episodes: int
    success: Estimate
    return_mean: Estimate


@dataclass(frozen=True, slots=True)
class PairRow:
    """What one player did against another from all seats. `games` counts the episodes.

    `score` is the mean over games: 1 where only the first succeeded, 0 where only the second did, else 0.5. Among
    teammates it is their success. `return_mean` is that of the first.
    """

    first: str
    second: str
    games: int
    score: Estimate
    return_mean: Estimate


@dataclass(frozen=True, slots=True)
class Exploitability:
    """How much a perfect opponent would win from the policy (`rl.evaluate.seats.exploitability`).

    `value` is the mean gain of the two best responses a game. `expected` is what the first seat wins when the policy
    plays both. `legal_mass_mean` and `legal_mass_min` are, over the information states, the probability of all replies
    that were counted; None for a script.
    """

    value: float
    expected: float
    information_states: int
    legal_mass_mean: float | None = None
    legal_mass_min: float | None = None


@dataclass(frozen=True, slots=True)
class SeatResults:
    """The results of an evaluation in seats.

    Attributes:
        is_team: Whether all seats win and lose together.
        by_seat: The policy in each seat, against each opponent.
        pairs: Every pair of different players; with one opponent there is one.
        ratings: Bradley-Terry ratings of all players, on the scale of Elo, with their mean at 0. Empty for teams.
        exploitability: Of the policy, in a game where it can be computed.
        episodes: Scored episodes of the policy, however many seats it had in one; None in results of older releases.
    """

    is_team: bool
    by_seat: list[SeatRow]
    pairs: list[PairRow] = field(default_factory=list)
    ratings: dict[str, Estimate] = field(default_factory=dict)
    exploitability: Exploitability | None = None
    episodes: int | None = None


def seat_results(
    plan: MatchPlan, groups: Sequence[Group], seed: int, exploitability: Exploitability | None = None
) -> SeatResults:
    """Compute the results of the groups of a plan; `seed` seeds the bootstrap of the intervals."""
    pairs = [] if plan.is_single else _pairs(plan, groups, seed)
    ratings = {} if plan.is_team or plan.is_single else _ratings(plan, groups, seed)
    episodes = {(group.ticket.number, t.member) for group in own_groups(plan, groups) for t in group.trajectories}
    return SeatResults(plan.is_team, _by_seat(plan, groups, seed), pairs, ratings, exploitability, len(episodes))


def own_groups(plan: MatchPlan, groups: Iterable[Group]) -> list[Group]:
    """Return the groups of the policy that is measured."""
    return [group for group in groups if plan.match(group.ticket).first == 0]


def overall(plan: MatchPlan, groups: Sequence[Group], seed: int) -> tuple[Estimate, Estimate, Estimate]:
    """Return the success, the success with errors as failures, and the return of the policy over all seats.

    `groups` are its own.

    The seats and opponents of a task share its deal, so the intervals resample whole tasks.
    """
    success, returns = (
        [fmean(values) for values in _by_task(groups, value).values()] for value in (_success, _return_of)
    )
    is_single = plan.is_team and plan.is_single and all(group.ticket.size == 1 for group in groups)
    all_values = _by_task(groups, _success)
    for group in groups:
        failures = {t.member for t in group.errored} - {t.member for t in group.trajectories}
        all_values[group.ticket.split, group.ticket.index] += [0.0] * len(failures)
    counting_errors = [fmean(values) for values in all_values.values() if values]
    samples = 1 if is_single else 2  # several from each task, unless a team has played it once
    return (
        _unit_estimate(success, samples, seed),
        _unit_estimate(counting_errors, samples, seed),
        _estimate(returns, seed),
    )


def _by_seat(plan: MatchPlan, groups: Sequence[Group], seed: int) -> list[SeatRow]:
    by_key: dict[tuple[str, str], list[Group]] = defaultdict(list)
    for group in own_groups(plan, groups):
        for seat in plan.seats:
            if any(t.agent == seat for t in group.trajectories):
                by_key[seat, plan.opponent(plan.match(group.ticket))].append(group)
    rows = []
    for opponent in plan.opponents:
        for seat in plan.own_seats:
            own = by_key[seat, opponent]
            success = [fmean(values) for values in _by_task(own, _success, seat).values()]
            returns = [fmean(values) for values in _by_task(own, _return_of, seat).values()]
            samples = max((group.ticket.size for group in own), default=1)
            episodes = sum(t.agent == seat for group in own for t in group.trajectories)
            rows.append(
                SeatRow(seat, opponent, episodes, _unit_estimate(success, samples, seed), _estimate(returns, seed))
            )
    return rows


def _pairs(plan: MatchPlan, groups: Sequence[Group], seed: int) -> list[PairRow]:
    names, rows = plan.names, []
    for pair in dict.fromkeys((match.first, match.second) for match in plan.matches):
        games = [game for game in _games(plan, groups) if (game.match.first, game.match.second) == pair]
        scores: dict[tuple[str, int], list[float]] = defaultdict(list)
        returns: dict[tuple[str, int], list[float]] = defaultdict(list)
        for game in games:
            scores[game.task].append(game.score)
            returns[game.task].append(game.own.reward)
        score = _unit_estimate([fmean(values) for values in scores.values()], 2, seed)
        return_mean = _estimate([fmean(values) for values in returns.values()], seed)
        rows.append(PairRow(names[pair[0]], names[pair[1]], len(games), score, return_mean))
    return rows


def _ratings(plan: MatchPlan, groups: Sequence[Group], seed: int) -> dict[str, Estimate]:
    from envs.multi.ratings import Game, bradley_terry

    names = plan.names
    games = [
        Game(names[game.match.first], names[game.match.second], game.score)
        for game in _games(plan, groups)
        if game.match.first != game.match.second
    ]
    if not games:
        return {}
    ratings = bradley_terry(games, np.random.default_rng(seed))
    return {name: Estimate(rating.points, rating.low, rating.high) for name, rating in ratings.items()}


@dataclass(frozen=True, slots=True)
class _GameResult:
    match: Match
    task: tuple[str, int]
    own: Trajectory
    score: float


def _games(plan: MatchPlan, groups: Sequence[Group]) -> list[_GameResult]:
    """The episodes between different players that were scored."""
    games = []
    for group in groups:
        match, ticket = plan.match(group.ticket), group.ticket
        others = {t.member: t for t in group.others}  # one opponent of each member is enough: they are the same player
        for own in group.trajectories:
            score = game_score(own, others.get(own.member), is_team=plan.is_team)
            games.append(_GameResult(match, (ticket.split, ticket.index), own, score))
    return games


def game_score(own: Trajectory, other: Trajectory | None, *, is_team: bool) -> float:
    """Return the score of a game: 1 where only `own` succeeded, 0 where only `other` did, else 0.5; a team's success.

    `other` is None for an opponent who was never asked; it then has what `own` has not.
    """
    other_wins = other.success if other else not own.success
    return float(own.success) if is_team or own.success != other_wins else 0.5


def _by_task(groups: Iterable[Group], value: Value, seat: str | None = None) -> dict[tuple[str, int], list[float]]:
    tasks: dict[tuple[str, int], list[float]] = defaultdict(list)
    for group in groups:
        for trajectory in group.trajectories:
            if seat is None or trajectory.agent == seat:
                tasks[group.ticket.split, group.ticket.index].append(value(trajectory))
    return tasks


def _success(trajectory: Trajectory) -> float:
    return float(trajectory.success)


def _return_of(trajectory: Trajectory) -> float:
    return trajectory.reward


def _unit_estimate(values: Sequence[float], samples: int, seed: int) -> Estimate:
    """A mean of values in [0, 1], one for each task, of so many samples."""
    return Estimate(fmean(values), *metric_interval("success", values, samples, seed)) if values else NO_ESTIMATE


def _estimate(values: Sequence[float], seed: int) -> Estimate:
    if not values:
        return NO_ESTIMATE
    low, high = cluster_bootstrap(values, np.random.default_rng(seed))
    return Estimate(fmean(values), *((low, high) if low <= high else (None, None)))  # nan without any spread
