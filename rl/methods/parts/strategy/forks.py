"""Where trees fork: at uncertain replies, level by level, at random, or evenly along one chain."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from rl.methods.estimators import trees
from rl.methods.options import Count, NonNegative, Share
from rl.methods.parts.strategy.growth import MemberState, Starts, grow
from rl.records import Fork, Group, Ticket, Turn
from rl.rollout.runner import Runner
from rl.seeds import derive, generator


async def entropy_forks(
    runner: Runner,
    ticket: Ticket,
    *,
    initial: Share = 0.5,
    beam: Count = 2,
    chance: Share = 0.5,
    weight: NonNegative = 0.2,
    tokens: Count = 20,
) -> list[Group]:
    """ARPO (arXiv:2507.19849): fork where replies to feedback begin less certain than the first reply did.

    A fork begins with another member's first turns and goes on by itself. An `initial` share of the group is played
    from the start. Turn by turn, each member that has replied to feedback gets up to `beam - 1` forks before that
    reply, each with probability `chance + weight * (now - first)`, until the group is full; once all are done, the
    missing members are played from the start. `now` and `first` are estimates of the entropy of the two replies, in
    nats per token: the mean of `-log p` over their first `tokens` sampled tokens.
    """
    plan = partial(_fork_uncertain, ticket, initial=initial, beam=beam, chance=chance, weight=weight, tokens=tokens)
    return await grow(runner, ticket, plan)


def _fork_uncertain(
    ticket: Ticket,
    states: Mapping[int, MemberState],
    *,
    initial: float,
    beam: int,
    chance: float,
    weight: float,
    tokens: int,
) -> Starts:
    starts: Starts = dict.fromkeys(range(max(1, round(initial * ticket.size))))
    turn = 0
    while True:
        turn += 1
        members = [states.get(member) for member in starts]
        if not all(state is not None and (state.done or len(state.turns) > turn) for state in members):
            return starts
        candidates = [number for number, state in enumerate(members) if state and len(state.turns) > turn]
        if not candidates:
            return _fill(starts, ticket)
        for number in candidates:
            turns = states[number].turns
            first, now = _surprise(turns[0], tokens), _surprise(turns[turn], tokens)
            for copy in range(beam - 1):
                u = derive(ticket.seed, "fork", number, turn, copy) / 2**63
                if trees.fork_score(u, first, now, weight=weight) <= chance and len(starts) < ticket.size:
                    starts[len(starts)] = Fork(number, turn)


def _surprise(turn: Turn, tokens: int) -> float:
    """Mean negative log-probability of a reply's first tokens: its expectation is their entropy."""
    logprobs = turn.completion.logprobs[:tokens]
    return -sum(logprobs) / max(len(logprobs), 1)


def _fill(starts: Starts, ticket: Ticket) -> Starts:
    """`starts` with the missing members of the group added, to be played from the start."""
    return dict.fromkeys(range(ticket.size)) | starts


async def level_forks(runner: Runner, ticket: Ticket, *, first: Share = 0.25, forks: Count = 2) -> list[Group]:
    """PORTool (arXiv:2510.26020): after every turn, up to `forks` branches follow each member that is not done.

    A fork begins with another member's first turns and goes on by itself. A share `first` of the group is played from
    the start. At each level as many forks are kept, drawn at random, as the group has room for; once all are done, the
    missing members are played from the start.
    """
    return await grow(runner, ticket, partial(_fork_levels, ticket, first=first, forks=forks))


def _fork_levels(ticket: Ticket, states: Mapping[int, MemberState], *, first: float, forks: int) -> Starts:
    starts: Starts = dict.fromkeys(range(max(1, round(first * ticket.size))))
    turn = 0
    while True:
        turn += 1
        members = [states.get(member) for member in starts]
        if not all(state is not None and (state.done or len(state.turns) >= turn) for state in members):
            return starts
        going = [n for n, state in enumerate(members) if state and (not state.done or len(state.turns) > turn)]
        if not going:
            return _fill(starts, ticket)
        proposals = [member for member in going for _ in range(forks - 1)]
        room = ticket.size - len(starts)
        choices = generator(ticket.seed, "level", turn).permutation(len(proposals))[:room]
        for place in sorted(choices.tolist()):
            starts[len(starts)] = Fork(proposals[place], turn)


async def scheduled_forks(runner: Runner, ticket: Ticket, *, levels: Count = 2, width: Count = 2) -> list[Group]:
    """BranchGRPO's schedule (arXiv:2509.06040) on turns: every member splits in `width` before turns 2, 4, 8, ...

    It splits `levels` times. As many members are played from the start as fill the group if all of them go on so long;
    where they end before, the missing members are played from the start too.
    """
    return await grow(runner, ticket, partial(_fork_on_schedule, ticket, levels=levels, width=width))


def _fork_on_schedule(ticket: Ticket, states: Mapping[int, MemberState], *, levels: int, width: int) -> Starts:
    starts: Starts = dict.fromkeys(range(max(1, round(ticket.size / width**levels))))
    for level in range(1, levels + 1):
        turns = 2**level - 1
        members = [states.get(member) for member in starts]
        if not all(state is not None and (state.done or len(state.turns) >= turns) for state in members):
            return starts
        going = [n for n, state in enumerate(members) if state and (not state.done or len(state.turns) > turns)]
        forks = [Fork(member, turns) for member in going for _ in range(width - 1)]
        for fork in forks[: ticket.size - len(starts)]:
            starts[len(starts)] = fork
    return _fill(starts, ticket)


async def random_forks(runner: Runner, ticket: Ticket, *, chains: Count = 2, rounds: Count = 1) -> list[Group]:
    """Tree-GRPO (arXiv:2509.21240): whole chains, then forks at random turns of the trees that grow from them.

    A fork begins with another member's first turns and goes on by itself. Each of `chains` members, played from the
    start, is the root of a tree. The rest of the group is shared out evenly among the trees and `rounds`. The members
    of a round fork at turns of their tree as it was when the last round ended, each turn equally likely; where a tree
    has no turn that another follows, they fork before its first turn.
    """
    return await grow(runner, ticket, partial(_fork_at_random, ticket, chains=chains, rounds=rounds))


def _fork_at_random(ticket: Ticket, states: Mapping[int, MemberState], *, chains: int, rounds: int) -> Starts:
    chains = min(chains, ticket.size)
    starts: Starts = dict.fromkeys(range(chains))
    for root in range(chains):
        members = list(range(root + chains, ticket.size, chains))
        tree = [root]
        for number in range(rounds):
            if not all(member in states and states[member].done for member in tree):
                break
            places = [Fork(m, k) for m in tree for k in range(_num_shared(starts[m]) + 1, len(states[m].turns))]
            this_round = members[number * len(members) // rounds : (number + 1) * len(members) // rounds]
            for member in this_round:
                rng = generator(ticket.seed, "expand", member)
                starts[member] = places[rng.integers(len(places))] if places else Fork(root, 0)
            tree += this_round
    return starts


def _num_shared(fork: Fork | None) -> int:
    return fork.turns if fork else 0


async def chain_forks(runner: Runner, ticket: Ticket, *, chains: Count = 1) -> list[Group]:
    """Tree-OPO (arXiv:2509.09284): members that complete prefixes of every depth of a chain that was played first.

    A chain is a member played from the start; a prefix is its first turns. The rest of the group is shared out evenly
    among the `chains`, and over the turns of each.
    """
    return await grow(runner, ticket, partial(_fork_along_chains, ticket, chains=chains))


def _fork_along_chains(ticket: Ticket, states: Mapping[int, MemberState], *, chains: int) -> Starts:
    chains = min(chains, ticket.size)
    starts: Starts = dict.fromkeys(range(chains))
    for chain in range(chains):
        if chain in states and states[chain].done:
            members = range(chain, ticket.size, chains)
            depth = len(states[chain].turns)
            starts |= {m: Fork(chain, i * depth // len(members)) for i, m in enumerate(members) if i}
    return starts
