"""Trees that grow where returns are high: upper confidence bounds over turns, with whole episodes as rollouts."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from functools import partial
from itertools import pairwise

from rl.methods.options import Count, NonNegative
from rl.methods.parts.strategy.growth import MemberState, Starts, grow
from rl.records import Fork, Group, Ticket
from rl.rollout.runner import Runner

Place = tuple[int, int]  # a member and a number of its turns: the node after those turns
ROOT: Place = (0, 0)


async def value_forks(
    runner: Runner,
    ticket: Ticket,
    *,
    chains: Count = 2,
    width: Count = 2,
    explore: NonNegative = 1.4,
    at_once: Count = 1,
) -> list[Group]:
    """Fork where returns have been high or little is known: UCT, the search of MedS3 (arXiv:2501.12051).

    After `chains` members from the start, rounds of `at_once` forks follow, each from the tree of all members that are
    done. A fork begins with another member's first turns. Its place is found from the first turn downwards: the search
    goes on to the child of the greatest `mean return + explore * sqrt(log(visits of the parent) / visits)` until a node
    has fewer than `width` children, or none to go on from, and forks there. Returns are assumed to lie between 0 and 1.
    """
    plan = partial(_fork_by_value, ticket, chains=chains, width=width, explore=explore, at_once=at_once)
    return await grow(runner, ticket, plan)


def _fork_by_value(
    ticket: Ticket, states: Mapping[int, MemberState], *, chains: int, width: int, explore: float, at_once: int
) -> Starts:
    starts: Starts = dict.fromkeys(range(min(chains, ticket.size)))
    while len(starts) < ticket.size and all(member in states and states[member].done for member in starts):
        tree = _SearchTree(starts, states)
        for member in range(len(starts), min(len(starts) + at_once, ticket.size)):
            starts[member] = tree.select(width, explore)
    return starts


class _SearchTree:
    """Visits and returns of every node of a tree."""

    def __init__(self, starts: Starts, states: Mapping[int, MemberState]) -> None:
        self.visits: dict[Place, int] = defaultdict(int)
        self.total: dict[Place, float] = defaultdict(float)
        self.children: dict[Place, list[Place]] = defaultdict(list)
        self.num_pending: dict[Place, int] = defaultdict(int)  # forks that were selected and have not been played
        self.leaves: set[Place] = set()
        for member, state in states.items():
            if member in starts:
                self._add(starts, member, state)

    def _add(self, starts: Starts, member: int, state: MemberState) -> None:
        path = [_place(starts, member, turns) for turns in range(len(state.turns) + 1)]
        self.leaves.add(path[-1])
        for parent, child in pairwise(path):
            if child not in self.children[parent]:
                self.children[parent].append(child)
        if state.reward is not None:
            for place in path:
                self.visits[place] += 1
                self.total[place] += state.reward

    def select(self, width: int, explore: float) -> Fork:
        """Select where the next fork leaves; until it is played, it counts as a visit with the mean return there."""
        place, path = ROOT, [ROOT]
        while True:
            inner = [child for child in self.children[place] if child not in self.leaves]
            if len(self.children[place]) + self.num_pending[place] < width or not inner:
                break
            bounds = [self._bound(place, child, explore) for child in inner]
            place = inner[bounds.index(max(bounds))]
            path.append(place)
        self.num_pending[place] += 1
        for node in path:
            self.total[node] += self._mean(node)
            self.visits[node] += 1
        return Fork(*place)

    def _mean(self, place: Place) -> float:
        return self.total[place] / max(self.visits[place], 1)

    def _bound(self, parent: Place, child: Place, explore: float) -> float:
        if not self.visits[child]:
            return math.inf
        return self._mean(child) + explore * math.sqrt(math.log(self.visits[parent]) / self.visits[child])


def _place(starts: Starts, member: int, turns: int) -> Place:
    """The node after the first `turns` turns of `member`, named after the member that played the last of them."""
    while (fork := starts[member]) is not None and turns <= fork.turns:
        member = fork.member
    return (member, turns) if turns else ROOT
