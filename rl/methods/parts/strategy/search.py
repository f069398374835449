"""Trees that grow where returns are high: upper confidence bounds over turns, with whole episodes as rollouts."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from functools import partial
from itertools import pairwise

from rl.methods.options import Count, NonNegative
from rl.methods.parts.strategy.growth import Grown, grow
from rl.records import Fork, Group, Ticket
from rl.rollout.runner import Runner

Place = tuple[int, int]  # after so many turns of a member, one of those that share them
ROOT: Place = (0, 0)


async def value_forks(
    runner: Runner,
    ticket: Ticket,
    *,
    chains: Count = 2,
    width: Count = 2,
    explore: NonNegative = 1.4,
    at_once: Count = 1,
) -> Group:
    """Fork where returns have been high or little is known: UCT, as MedS3 (arXiv:2501.12051) searches.

    After `chains` members from the start, rounds of `at_once` forks follow, each from the tree of all that has ended.
    A fork goes down from the first turn to the child of the greatest `mean return + explore * sqrt(log(visits of the
    parent) / visits)` until it finds a place with fewer than `width` children, or with none to go on from, and leaves
    there. Returns are taken to lie between 0 and 1.
    """
    plan = partial(_by_value, ticket, chains=chains, width=width, explore=explore, at_once=at_once)
    return await grow(runner, ticket, plan)


def _by_value(
    ticket: Ticket, grown: Mapping[int, Grown], *, chains: int, width: int, explore: float, at_once: int
) -> dict[int, Fork | None]:
    named: dict[int, Fork | None] = dict.fromkeys(range(min(chains, ticket.size)))
    while len(named) < ticket.size and all(member in grown and grown[member].ended for member in named):
        tree = _Searched(named, grown)
        for member in range(len(named), min(len(named) + at_once, ticket.size)):
            named[member] = tree.choose(width, explore)
    return named


class _Searched:
    """Visits and returns of every place of a tree."""

    def __init__(self, named: Mapping[int, Fork | None], grown: Mapping[int, Grown]) -> None:
        self.visits: dict[Place, int] = defaultdict(int)
        self.total: dict[Place, float] = defaultdict(float)
        self.children: dict[Place, list[Place]] = defaultdict(list)
        self.coming: dict[Place, int] = defaultdict(int)  # forks that were chosen and have not been played
        self.ends: set[Place] = set()
        for member, known in grown.items():
            if member in named:
                self._add(named, member, known)

    def _add(self, named: Mapping[int, Fork | None], member: int, known: Grown) -> None:
        path = [_place(named, member, turns) for turns in range(len(known.turns) + 1)]
        self.ends.add(path[-1])
        for parent, child in pairwise(path):
            if child not in self.children[parent]:
                self.children[parent].append(child)
        if known.reward is not None:
            for place in path:
                self.visits[place] += 1
                self.total[place] += known.reward

    def choose(self, width: int, explore: float) -> Fork:
        """Where the next fork leaves; it counts as a visit with the returns that there have been."""
        at, path = ROOT, [ROOT]
        while True:
            onward = [child for child in self.children[at] if child not in self.ends]
            if len(self.children[at]) + self.coming[at] < width or not onward:
                break
            bounds = [self._bound(at, child, explore) for child in onward]
            at = onward[bounds.index(max(bounds))]
            path.append(at)
        self.coming[at] += 1
        for place in path:
            self.total[place] += self._mean(place)
            self.visits[place] += 1
        return Fork(*at)

    def _mean(self, place: Place) -> float:
        return self.total[place] / max(self.visits[place], 1)

    def _bound(self, parent: Place, child: Place, explore: float) -> float:
        if not self.visits[child]:
            return math.inf
        return self._mean(child) + explore * math.sqrt(math.log(self.visits[parent]) / self.visits[child])


def _place(named: Mapping[int, Fork | None], member: int, turns: int) -> Place:
    """The place after so many turns of `member`, by the name of the member that had the last of them first."""
    while (fork := named[member]) is not None and turns <= fork.turns:
        member = fork.member
    return (member, turns) if turns else ROOT
