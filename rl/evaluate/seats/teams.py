"""Teams of different policies: a player for each seat, and how different what they say is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from envs.suggestions import unknown_message
from rl.evaluate.diversity import Diversity, measure
from rl.records import Group, Trajectory
from rl.spec_paths import SEAT_FORM, as_typed

if TYPE_CHECKING:
    from rl.evaluate.seats.matches import MatchPlan


def read_opponents(
    texts: Sequence[str], seats: Sequence[str], policy: str = "--policy"
) -> tuple[list[str], dict[str, int]]:
    """Return the players that `--opponent` names, and which of them has which seat, numbered from 1.

    Seats are given by name or index. There are none in the result if no text is of the form SEAT=SPEC: then the players
    change seats. Equal players of several seats are one. `policy` is what errors call the player of all other seats.

    Raises:
        ValueError: Some texts have a seat and others none, a seat is unknown or named twice, or none is left.
    """
    for text in texts:
        if (seat := text.removesuffix("=")) != text and seat in seats:
            raise ValueError(f"--opponent {text}: names nobody for the seat {seat}; write {text}random, for example")
    pairs = [match.groups() if (match := SEAT_FORM.fullmatch(text)) else ("", text) for text in texts]
    if not any(seat for seat, _ in pairs):
        return [*texts], {}
    specs = [*dict.fromkeys(spec for _, spec in pairs)]
    places: dict[str, int] = {}
    for text, (seat, spec) in zip(texts, pairs, strict=True):
        if not seat:
            raise ValueError(f"--opponent {text}: names no seat, and others do; write SEAT={text}")
        if seat not in seats and seat.isdecimal() and int(seat) < len(seats):
            seat = seats[int(seat)]
        if seat not in seats:
            raise ValueError(f"--opponent {text}: {unknown_message('seat', seat, seats, of='the environment')}")
        if seat in places:
            raise ValueError(f"--opponent {text}: the seat {seat} is named twice")
        places[seat] = 1 + specs.index(spec)
    if len(places) == len(seats):
        raise ValueError(f"--opponent {texts[-1]}: leaves no seat to {policy}; leave one out")
    return specs, places


def opponent_names(plan: MatchPlan) -> list[str]:
    """Return who played the other seats, as `--opponent` names them."""
    names = [as_typed(player.name) for player in plan.players]
    if not plan.places:
        return names[1:]
    return [f"{seat}={names[number]}" for seat, number in plan.places.items()]


def seat_diversity(plan: MatchPlan, groups: Sequence[Group], seed: int) -> dict[str, Diversity]:
    """Return how different the players are, and the seats of an episode, by the names "players" and "seats".

    Players are compared in the same seat on the same task, each by its first episode there; so if they change seats.
    Seats are compared where nobody changes them: what those of one episode have said.
    """
    by_episode: dict[tuple[int, int], dict[str, Trajectory]] = {}
    by_place: dict[tuple[str, int, str], dict[str, Trajectory]] = {}
    for group in groups:
        ticket = group.ticket
        for trajectory in (*group.trajectories, *group.others):
            by_episode.setdefault((ticket.number, trajectory.member), {})[trajectory.agent] = trajectory
            place = by_place.setdefault((ticket.split, ticket.index, trajectory.agent), {})
            place.setdefault(trajectory.player, trajectory)
    if plan.is_single:
        sets = [[episode[seat] for seat in plan.seats if seat in episode] for episode in by_episode.values()]
        diversity = measure(sets, len(plan.seats), seed)
        return {"seats": diversity} if diversity else {}
    names = plan.names
    sets = [[place[name] for name in names if name in place] for place in by_place.values()]
    diversity = measure(sets, len(names), seed, players=names)
    return {"players": diversity} if diversity else {}
