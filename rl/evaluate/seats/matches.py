"""Who meets whom in which seat, and an evaluation that plays these matches."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, cast

import envs
from agents.agent import Agent
from rl.cli import UserError
from rl.evaluate.flags import refuse_unread
from rl.evaluate.policies import PolicyHandle
from rl.evaluate.report import Report
from rl.evaluate.runner import OnGroup, evaluate, sampling_record
from rl.evaluate.seats.exploitability import measure_exploitability
from rl.evaluate.seats.players import NOT_IN_SEATS, OpenPlayer, check_player, open_player, opponent_flags
from rl.evaluate.seats.results import overall, own_groups, seat_results
from rl.evaluate.seats.teams import opponent_names, read_opponents, seat_diversity
from rl.evaluate.target import EvaluationTarget
from rl.policy.engine import Policy
from rl.prompt_options import PromptOptions
from rl.records import Group, SamplingParams, Ticket
from rl.rollout.player import AnyPlayer, Lineup, Player, TeamPlayer, in_seat
from rl.rollout.runner import Runner
from rl.rollout.seating import Seating, seating_of
from rl.rollout.workers.pool import Workers
from rl.spec_paths import as_typed


@dataclass(frozen=True, slots=True)
class Match:
    """Players by number: `first` sits in `seat` and `second` in all others. A player that meets itself has all."""

    first: int
    second: int
    seat: str


@dataclass(frozen=True)
class MatchPlan:
    """All matches of each task.

    Player 0 is the policy that is measured. It meets every other player once from each seat, in the same episode seeds,
    and so do the others among each other. Alone, it plays all seats itself. Where players have seats of their own,
    there is one match, in which the policy has all seats that are left.

    Attributes:
        seats: The seats of the environment.
        players: The players; opponents in all matches but their own.
        is_team: Whether all seats win and lose together.
        places: The number of the player by seat, for seats that always have the same other player.
    """

    seats: tuple[str, ...]
    players: tuple[AnyPlayer | TeamPlayer, ...]
    is_team: bool
    places: Mapping[str, int] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """Names of the players, made different by a number where several have the same."""
        names = [as_typed(player.name) for player in self.players]
        return [name if name not in names[:at] else f"{name} ({at})" for at, name in enumerate(names)]

    @property
    def is_single(self) -> bool:
        """Whether there is one match of each task, because nobody changes seats."""
        return len(self.players) == 1 or bool(self.places)

    @property
    def own_seats(self) -> list[str]:
        """The seats that the policy plays in some match."""
        return [seat for seat in self.seats if seat not in self.places]

    @property
    def opponents(self) -> list[str]:
        """Who the policy meets, a name for each of its matches in a seat: itself where it is alone."""
        if self.places:
            return [" + ".join(self.names[self.places[seat]] for seat in self.seats if seat in self.places)]
        return self.names[1:] or self.names

    def opponent(self, match: Match) -> str:
        """Return which of `opponents` a match of the policy is against."""
        return self.opponents[0] if self.is_single else self.names[match.second]

    @property
    def matches(self) -> list[Match]:
        """The matches of one task, those of player 0 first."""
        count = len(self.players)
        if self.is_single:
            return [Match(0, 0, self.own_seats[0])]
        return [Match(i, j, seat) for i in range(count) for j in range(i + 1, count) for seat in self.seats]

    def tickets(self, tickets: list[Ticket]) -> list[Ticket]:
        """Return a ticket for each match of each task, in order; its number says which match it is."""
        count = len(self.matches)
        return [replace(t, number=n * count + k) for n, t in enumerate(tickets) for k in range(count)]

    def match(self, ticket: Ticket) -> Match:
        """Return the match that a ticket of `tickets` is for."""
        matches = self.matches
        return matches[ticket.number % len(matches)]

    def lineup(self, ticket: Ticket) -> Lineup:
        """Return who plays the seats of a ticket."""
        match, numbers = self.match(ticket), {seat: self.places.get(seat, 0) for seat in self.seats}
        if not self.places:
            numbers = {seat: match.first if seat == match.seat else match.second for seat in self.seats}
        names, own = self.names, match.first
        return {
            seat: in_seat(self.players[number], seat, name=names[number], is_opponent=number != own)
            for seat, number in numbers.items()
        }


@dataclass(frozen=True)
class SeatedPolicies:
    """The open players of an evaluation in seats. `handle` plays the tickets of `plan`."""

    plan: MatchPlan
    handle: PolicyHandle
    players: tuple[OpenPlayer, ...]
    seating: Seating
    has_local_engine: bool

    def report(self, target: EvaluationTarget, groups: Sequence[Group], seed: int) -> Report:
        """Compute the report of the policy over all seats, with the results by seat and of all pairs."""
        plan, own = self.plan, own_groups(self.plan, groups)
        exploitability = measure_exploitability(self.players[0], self.seating, is_local=self.has_local_engine)
        report = target.report(own, plan.names[0], seed)
        success, counting_errors, return_mean = overall(plan, own, seed)
        is_bounded = return_mean.low is not None and return_mean.high is not None
        return replace(
            report,
            episodes=len({(group.ticket.split, group.ticket.index) for group in own}),
            success=success,
            success_counting_errors=counting_errors,
            return_mean=return_mean.mean,
            # The others would take the seats of a task for tasks of their own.
            intervals={"return_mean": (return_mean.low or 0.0, return_mean.high)} if is_bounded else {},
            errors=len({(group.ticket.number, t.member) for group in own for t in group.errored}),
            opponents=opponent_names(plan),
            seats=seat_results(plan, groups, seed, exploitability),
            diversity={**report.diversity, **seat_diversity(plan, groups, seed)},
        )


def seating_for(args: argparse.Namespace, *, has_strategy: bool) -> Seating | None:
    """Return how the seats of the environment are played; None for an environment of one agent, or a view of one seat.

    A view is played where an `--env-arg` asks for it, with a test-time strategy, and by stored replies and humans.

    Raises `ValueError` if there are opponents and no seats for them.
    """
    reason = ""
    if args.benchmark is not None:
        reason = "a benchmark has its own opponents"
    elif has_strategy:
        reason = "a test-time strategy plays one seat"
    elif args.policy.startswith(NOT_IN_SEATS):
        reason = f"--policy {args.policy} plays one seat"
    else:
        seating = seating_of(args.env, args.env_arg, envs.arguments(args.env_arg, envs.entry(args.env)))
        if seating.has_table:
            return seating
        has_seats = hasattr(getattr(envs.entry(args.env), "game", None), "teammates")
        reason = "--env-arg seat= and opponent= ask for one seat" if has_seats else f"{args.env} has one seat"
    if args.opponent:
        raise ValueError(f"--opponent {args.opponent[0]}: {reason}; leave it out")
    return None


def open_seated(args: argparse.Namespace, seating: Seating) -> SeatedPolicies:
    """Open the policy and all opponents that the flags name, for the seats of an environment.

    Raises `ValueError` or `OSError` as `open_player`, and `ValueError` as `read_opponents` and
    `refuse_unread`.
    """
    game: Any = getattr(envs.entry(seating.spec), "game", None)
    specs, places = read_opponents(args.opponent, seating.seats)
    for spec in specs:  # before the policy is loaded
        check_player(spec, game, flag="--opponent")
    refuse_unread(args, specs, game.players)
    players: list[OpenPlayer] = []
    try:
        players.append(open_player(args, game))
        for spec in specs:
            players.append(open_player(opponent_flags(args, spec), game, flag="--opponent"))
    except BaseException:
        _close(players)
        raise
    plan = MatchPlan(seating.seats, tuple(one.player for one in players), not seating.is_contest, places)
    episode_s = args.episode_seconds or max(one.episode_s for one in players)
    workers = Workers.open(args.workers, args.cluster)
    runner = Runner(
        workers.far(seating.make_env, args.split or "test") if workers else seating.make_env,
        cast(Callable[[], Agent], None),  # every seat has a player of its own
        cast(Policy, None),
        SamplingParams(),
        0,
        episode_s=episode_s,
        seats=seating.seats,
        lineup=plan.lineup,
        keeps_unasked=True,
    )
    own = _sampling_of(players[0].player, args)
    handle = PolicyHandle(partial(_play, runner, players), plan.tickets, partial(_close, players, workers), own)
    return SeatedPolicies(plan, handle, tuple(players), seating, args.engine == "hf")


def _sampling_of(player: AnyPlayer | TeamPlayer, args: argparse.Namespace) -> dict[str, Any] | None:
    """How a policy samples in its seats; None for a script."""
    one = next(iter(player.by_seat.values())) if isinstance(player, TeamPlayer) else player
    if not isinstance(one, Player):
        return None
    # Only an API counts its own tokens and reads fields of requests.
    max_tokens, api_arg = (args.max_tokens, args.api_arg) if one.has_own_ids else (one.max_tokens, ())
    return sampling_record(one.params, max_tokens, PromptOptions.from_flags(args), api_arg)


async def _play(
    runner: Runner, players: Sequence[OpenPlayer], tickets: Sequence[Ticket], on_group: OnGroup
) -> list[Group]:
    """Play the tickets. Raises as `PolicyHandle` says."""
    from rl.evaluate.clients.client import stop_errors, stopped_evaluation

    complete: list[Group] = []

    def record_group(group: Group) -> None:
        complete.append(group)
        on_group(group)

    try:
        async with AsyncExitStack() as stack:
            for one in players:
                if one.client is not None:
                    await stack.enter_async_context(one.client)
            concurrency = min(one.slots for one in players)
            groups = await evaluate(runner, tickets, concurrency=concurrency, on_group=record_group)
    except BaseExceptionGroup as error:
        stops = stop_errors(error)
        if not stops:
            raise
        raise stopped_evaluation(stops, complete) from None
    finally:
        runner.close()
    for one in players:
        if one.failure:  # the episodes that ended before it are not a random sample
            raise UserError(f"the sampling engine of {one.player.name} died: {one.failure}")
    return groups


def _close(players: Sequence[OpenPlayer], workers: Workers | None = None) -> None:
    for one in players:
        one.close()
    if workers is not None:
        workers.close()
