"""Who plays the seats of a run that the policy leaves to others, and which seats the policy plays itself."""

from __future__ import annotations

from collections.abc import Coroutine, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, TypeVar

import envs
from envs.suggestions import unknown_message
from rl.cli import Parser
from rl.evaluate.clients.client import StopEvaluation, stop_errors
from rl.evaluate.flags import add_policy_flags
from rl.evaluate.seats.players import OpenPlayer, open_player, opponent_flags
from rl.evaluate.seats.teams import read_opponents
from rl.methods.recipe import Recipe, samples_by_turn
from rl.policy.hf import HFPolicy
from rl.records import Group, Ticket
from rl.rollout.player import AnyPlayer, Lineup, ScriptPlayer, TeamPlayer, in_seat
from rl.rollout.seating import VIEW_ARGUMENTS, Seating
from rl.settings import Settings
from rl.style import argument_key
from rl.train.memory.estimate import frozen_bytes
from rl.train.seats.pool import Pool, PoolOptions

T = TypeVar("T")
TOGETHER = "+"  # between seats that the policy plays in the same episode


@dataclass(frozen=True)
class Opponents:
    """The seats that the policy plays, and the players of all others, which never learn.

    The policy plays one entry of `own_seats` in each group of episodes, in turn: ticket n takes entry n modulo their
    number. What the opponent draws depends on the ticket, the member and the seat, as the policy's draws do, so that a
    resumed run draws the same.

    Attributes:
        seats: The seats of the environment.
        own_seats: Seats that the policy plays at the same time; one such entry after the other.
        players: Play the other seats: the first plays all, unless `places` says more; () where the policy or its past
            selves play them.
        places: The number of the player by seat, where players have seats of their own.
        pool: Past weights of the policy that play the other seats; None for no such pool.
    """

    seats: tuple[str, ...]
    own_seats: tuple[tuple[str, ...], ...]
    players: tuple[OpenPlayer, ...] = ()
    places: Mapping[str, int] = field(default_factory=dict)
    pool: Pool | None = None

    @property
    def most_own_seats(self) -> int:
        """The most seats that the policy plays in one episode."""
        return len(self.seats) if self.pool else max(map(len, self.own_seats))

    @property
    def trained_seats(self) -> tuple[str, ...]:
        """The seats that the policy plays in some episode, in the environment's order."""
        if self.pool:
            return self.seats
        return tuple(seat for seat in self.seats if any(seat in own for own in self.own_seats))

    def copies(self, slots: int, updates: int) -> dict[str, int]:
        """Return what `rl.train.memory.workload.workload` asks of opponents: `past` weights, and bytes of `opponents`.

        They sample `slots` sequences at a time at most. Members that have left the pool, and stay for groups that they
        are playing, are not counted.
        """
        options = self.pool.options if self.pool else None
        past = min(options.size, 1 + updates // options.every) if options else 0
        engines = [model.engine for one in self.players for model in one.models]
        sizes = [
            frozen_bytes(engine.model, engine.context, min(engine.slots, slots))
            for engine in engines
            if isinstance(engine, HFPolicy)
        ]
        return {"past": past, "other_models": sum(sizes)}

    def lineup(self, ticket: Ticket) -> Lineup:
        """Return who plays the seats of a ticket that the policy does not play."""
        players: Sequence[AnyPlayer | TeamPlayer]
        if self.pool is not None and ticket.opponent:
            players = [self.pool.player_of(ticket.opponent)]
        elif self.players:
            players = [one.player for one in self.players]
        else:
            return {}
        own = self.own_seats[ticket.number % len(self.own_seats)]
        others = {seat: players[self.places.get(seat, 0)] for seat in self.seats if seat not in own}
        return {seat: in_seat(player, seat, name=player.name, is_opponent=True) for seat, player in others.items()}

    def begin(self) -> None:
        """Let the weights that training begins with be the first member of the pool, if there is one."""
        if self.pool is not None:
            self.pool.begin()

    def choose(self, ticket: int) -> str:
        """Return what the ticket with a number records as its opponent: a member of the pool, or ""."""
        return self.pool.choose(ticket) if self.pool else ""

    def finish_update(self, update: int, groups: Sequence[Group], in_play: Iterable[Ticket]) -> dict[str, float]:
        """Rate the pool by the groups of an update, and let its weights enter if it is time; return metrics.

        `in_play` are the tickets that no update has used up.
        """
        return self.pool.finish_update(update, groups, {t.opponent for t in in_play}) if self.pool else {}

    def description(self) -> str:
        """Return a line on who plays which seat; "" without an opponent."""
        if not self.players and self.pool is None:
            return ""
        names = [one.player.name for one in self.players]
        if self.places:
            opponent = " and ".join(
                f"{names[self.places[seat]]} as {seat}" for seat in self.seats if seat in self.places
            )
        else:
            opponent = names[0] if names else "its past weights"
        if names:
            opponent += ", which do not learn" if len(self.places) > 1 else ", which does not learn"
        own = [TOGETHER.join(seats) for seats in self.own_seats]
        where = f"each of {', '.join(own)} in turn" if len(own) > 1 else own[0]
        return f"the policy plays {where} against {opponent}"

    async def during(self, work: Coroutine[Any, Any, T]) -> T:
        """Await `work` while the opponents can be asked: an endpoint has its connections for as long."""
        async with AsyncExitStack() as stack:
            for one in self.players:
                if one.client is not None:
                    await stack.enter_async_context(one.client)
            return await work

    def settle(self) -> None:
        """Bring the opponents' engines to the state of new ones, as each update does with the policy's.

        Backend that it is sampling go on behind the tokens that they have, as they do in a resumed run.
        """
        if self.pool is not None:
            self.pool.settle()
        for model in (model for one in self.players for model in one.models):
            model.engine.sync_weights()
            model.engine.version = 0  # of weights that never change

    def close(self) -> None:
        """Free what the opponents hold."""
        if self.pool is not None:
            self.pool.close()
        for one in self.players:
            one.close()


def open_opponents(settings: Settings, seating: Seating, recipe: Recipe) -> Opponents:
    """Open the opponents that `settings` name, for the seats of an environment.

    A model samples by the engine `hf` at the run's `--temperature`, in training and in evaluations.

    Raises:
        ValueError: There are no seats for an opponent, an unknown seat or player, a model that does not work, or a
            recipe that plays all seats itself.
        OSError: A file cannot be read.
    """
    spec = " ".join(settings.opponent)
    if settings.role and not seating.has_table:
        raise ValueError(f"--role {settings.role[0]}: {_why_one_seat(settings)}; leave it out")
    if not spec:
        if settings.seat:
            raise ValueError(f"--seat {settings.seat[0]}: needs --opponent SPEC, who plays the other seats")
        return Opponents(seating.seats, (seating.seats,))
    game: Any = getattr(envs.entry(settings.env), "game", None)
    if not seating.has_table:
        raise ValueError(f"--opponent {spec}: {_why_one_seat(settings)}; leave it out")
    if samples_by_turn(recipe):
        raise ValueError(
            f"--opponent {spec}: the strategy of --algo {settings.algo} plays all seats itself; "
            "--strategy independent leaves some to others"
        )
    specs, places = read_opponents(settings.opponent, seating.seats, "the policy")
    if len(specs) > 1 and not places:
        raise ValueError(
            f"--opponent {specs[1]}: training has one player for all other seats, or one for each as SEAT={specs[1]}"
        )
    if places and settings.seat:
        raise ValueError(
            f"--seat {settings.seat[0]}: --opponent {spec} leaves all seats that it does not name; leave it out"
        )
    own_seats = _own_seats(settings.seat, seating.seats)
    if places:
        own_seats = (tuple(seat for seat in seating.seats if seat not in places),)
        places = {seat: number - 1 for seat, number in places.items()}
    if any(PoolOptions.parse(one) for one in specs) and places:
        raise ValueError(f"--opponent {spec}: a pool plays all other seats; name the policy's own by --seat")
    if options := PoolOptions.parse(specs[0]):
        if settings.role:
            raise ValueError(f"--opponent {spec}: a pool has past weights of one policy; leave out --role")
        if settings.engine != "hf":
            raise ValueError(f"--opponent {spec}: past weights are sampled by --engine hf, not by {settings.engine}")
        return Opponents(seating.seats, own_seats, pool=Pool(options, settings.seed, is_team=not seating.is_contest))
    flags = Parser()
    add_policy_flags(flags)
    args = flags.parse_args(
        [f"--policy={specs[0]}", f"--seed={settings.seed}", f"--temperature={settings.temperature}"]
    )
    args.device = settings.device
    players: list[OpenPlayer] = []
    try:
        for one in specs:
            players.append(open_player(opponent_flags(args, one), game, flag="--opponent", must_reply=True))
    except BaseException:
        for player in players:
            player.close()
        raise
    return Opponents(seating.seats, own_seats, tuple(players), places)


def default_opponents(seating: Seating) -> Opponents:
    """Return the default opponent of a contest, which meets the policies in each of the seats in turn."""
    from envs.multi.opponents import make_opponent  # imports PettingZoo

    game: Any = getattr(envs.entry(seating.spec), "game", None)
    player = OpenPlayer(ScriptPlayer(seating.opponent, make_opponent(seating.opponent, game)))
    return Opponents(seating.seats, tuple((seat,) for seat in seating.seats), (player,))


def _why_one_seat(settings: Settings) -> str:
    is_view = {argument_key(text) for text in settings.env_arg} & set(VIEW_ARGUMENTS)
    return "--env-arg seat= and opponent= ask for one seat" if is_view else f"{settings.env} has one seat"


def stop_reason(error: BaseException) -> str:
    """Return why a client ended the run, such as a key that its server refuses; "" for any other error."""
    if isinstance(error, StopEvaluation):
        return str(error)
    stops = stop_errors(error) if isinstance(error, BaseExceptionGroup) else []
    return str(stops[0]) if stops else ""


def _own_seats(words: Sequence[str], seats: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """The seats that each `--seat` names; without any, each seat alone."""
    if not words:
        return tuple((seat,) for seat in seats)
    return tuple(_parse_seats(word, seats) for word in words)


def _parse_seats(word: str, seats: tuple[str, ...]) -> tuple[str, ...]:
    names = []
    for name in word.split(TOGETHER):
        if name not in seats and not (name.isdecimal() and int(name) < len(seats)):
            raise ValueError(f"--seat {word}: {unknown_message('seat', name, seats)}")
        names.append(name if name in seats else seats[int(name)])
    if len(set(names)) < len(names):
        raise ValueError(f"--seat {word}: names a seat twice")
    if len(names) == len(seats):
        raise ValueError(f"--seat {word}: leaves no seat to --opponent; leave --opponent out to train all seats")
    return tuple(seat for seat in seats if seat in names)
