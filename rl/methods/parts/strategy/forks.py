"""Where trees fork: at uncertain replies, level by level, at random, or all along one chain."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from rl.methods.estimators import trees
from rl.methods.options import Count, NonNegative, Share
from rl.methods.parts.strategy.growth import Grown, grow
from rl.records import Fork, Group, Ticket, Turn
from rl.rollout.runner import Runner
from rl.seeds import derive, generator

Named = dict[int, Fork | None]


async def entropy_forks(
    runner: Runner,
    ticket: Ticket,
    *,
    initial: Share = 0.5,
    beam: Count = 2,
    chance: Share = 0.5,
    weight: NonNegative = 0.2,
    tokens: Count = 20,
) -> Group:
    """ARPO (arXiv:2507.19849): fork where replies to feedback begin less certain than the first reply did.

    An `initial` share of the group is played from the start. Turn by turn, each member that has replied to feedback
    has up to `beam - 1` forks before that reply, each with probability `chance + weight * (now - first)`, until the
    group is full; once all have ended, what is missing is played from the start. The entropies are estimates, in nats
    per token: the mean of `-log p` over the first `tokens` sampled tokens of the two replies.
    """
    plan = partial(_uncertain, ticket, initial=initial, beam=beam, chance=chance, weight=weight, tokens=tokens)
    return await grow(runner, ticket, plan)


def _uncertain(
    ticket: Ticket, grown: Mapping[int, Grown], *, initial: float, beam: int, chance: float, weight: float, tokens: int
) -> Named:
    named: Named = dict.fromkeys(range(max(1, round(initial * ticket.size))))
    turn = 0
    while True:
        turn += 1
        there = [grown.get(member) for member in named]
        if not all(member is not None and (member.ended or len(member.turns) > turn) for member in there):
            return named
        replied = [number for number, member in enumerate(there) if member and len(member.turns) > turn]
        if not replied:
            return _filled(named, ticket)
        for number in replied:
            turns = grown[number].turns
            first, now = _surprise(turns[0], tokens), _surprise(turns[turn], tokens)
            for copy in range(beam - 1):
                u = derive(ticket.seed, "fork", number, turn, copy) / 2**63
                if trees.fork_score(u, first, now, weight=weight) <= chance and len(named) < ticket.size:
                    named[len(named)] = Fork(number, turn)


def _surprise(turn: Turn, tokens: int) -> float:
    """Mean negative log-probability of a reply's first tokens: what its entropy is on average."""
    begun = turn.completion.logprobs[:tokens]
    return -sum(begun) / max(len(begun), 1)


def _filled(named: Named, ticket: Ticket) -> Named:
    """With the members that are missing, played from the start."""
    return dict.fromkeys(range(ticket.size)) | named


async def level_forks(runner: Runner, ticket: Ticket, *, first: Share = 0.25, forks: Count = 2) -> Group:
    """PORTool (arXiv:2510.26020): after every turn, up to `forks` branches follow each one that has not ended.

    A share `first` of the group is played from the start. At each level as many forks are kept, drawn at random, as
    the group has room for; once all have ended, what is missing is played from the start.
    """
    return await grow(runner, ticket, partial(_by_level, ticket, first=first, forks=forks))


def _by_level(ticket: Ticket, grown: Mapping[int, Grown], *, first: float, forks: int) -> Named:
    named: Named = dict.fromkeys(range(max(1, round(first * ticket.size))))
    turn = 0
    while True:
        turn += 1
        there = [grown.get(member) for member in named]
        if not all(member is not None and (member.ended or len(member.turns) >= turn) for member in there):
            return named
        going = [n for n, member in enumerate(there) if member and (not member.ended or len(member.turns) > turn)]
        if not going:
            return _filled(named, ticket)
        proposed = [member for member in going for _ in range(forks - 1)]
        drawn = generator(ticket.seed, "level", turn).permutation(len(proposed))[: ticket.size - len(named)]
        for place in sorted(drawn.tolist()):
            named[len(named)] = Fork(proposed[place], turn)


async def random_forks(runner: Runner, ticket: Ticket, *, chains: Count = 2, rounds: Count = 1) -> Group:
    """Tree-GRPO (arXiv:2509.21240): whole chains, then forks at random turns of the trees that they have become.

    Each of `chains` members, played from the start, is a tree. The rest of the group is shared out among the trees and
    `rounds`; those of one round fork at turns, each equally likely, of what their tree was when the last round ended,
    or before its first turn where it has no other that is followed by one.
    """
    return await grow(runner, ticket, partial(_at_random, ticket, chains=chains, rounds=rounds))


def _at_random(ticket: Ticket, grown: Mapping[int, Grown], *, chains: int, rounds: int) -> Named:
    chains = min(chains, ticket.size)
    named: Named = dict.fromkeys(range(chains))
    for root in range(chains):
        forks = list(range(root + chains, ticket.size, chains))
        tree = [root]
        for number in range(rounds):
            if not all(member in grown and grown[member].ended for member in tree):
                break
            places = [Fork(m, k) for m in tree for k in range(_shared(named[m]) + 1, len(grown[m].turns))]
            this = forks[number * len(forks) // rounds : (number + 1) * len(forks) // rounds]
            for member in this:
                rng = generator(ticket.seed, "expand", member)
                named[member] = places[rng.integers(len(places))] if places else Fork(root, 0)
            tree += this
    return named


def _shared(fork: Fork | None) -> int:
    return fork.turns if fork else 0


async def chain_forks(runner: Runner, ticket: Ticket, *, chains: Count = 1) -> Group:
    """Tree-OPO (arXiv:2509.09284): members that complete prefixes of every depth of a chain that was played first.

    The rest of the group is shared out among `chains`, and evenly over the turns of each.
    """
    return await grow(runner, ticket, partial(_along_chains, ticket, chains=chains))


def _along_chains(ticket: Ticket, grown: Mapping[int, Grown], *, chains: int) -> Named:
    chains = min(chains, ticket.size)
    named: Named = dict.fromkeys(range(chains))
    for chain in range(chains):
        if chain in grown and grown[chain].ended:
            members = range(chain, ticket.size, chains)
            depth = len(grown[chain].turns)
            named |= {m: Fork(chain, i * depth // len(members)) for i, m in enumerate(members) if i}
    return named
