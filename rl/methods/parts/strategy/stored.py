"""Whole groups of earlier updates, in the place of new ones."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from rl.cli import one_line
from rl.methods.options import AboveZero, Count, Natural, PartError
from rl.methods.parts import plays_seats
from rl.methods.parts.strategy.independent import independent
from rl.records import Group, Ticket
from rl.rollout.record_codec import decode, encode
from rl.rollout.runner import Runner
from rl.seeds import generator


class _Stored(NamedTuple):
    """The groups of a ticket, one for each seat, as JSON, with its number and the policy version then."""

    ticket: int
    version: int
    record: str


@plays_seats
@dataclass
class replay_groups:
    """Rollout replay (DOTS, arXiv:2506.05316): a `fresh` share of the groups is played; the others are earlier ones.

    A group is remembered if its members' rewards differ, as it was sampled: importance ratios come from its own
    log-probabilities. Of each task the newest is remembered, of all tasks the `keep` newest. A replayed group is drawn
    with equal chances from those that an update has used up, at most `oldest` policy versions ago; where there is none,
    the group is played. Its members are marked `replayed` and count in no metric of what was sampled.

    Attributes:
        fresh: Share of the tickets that are played.
        keep: Groups to remember.
        oldest: Most policy versions between a group's ticket and the ticket that takes it.
        until: Policy version from which on all groups are played; 0 for never.

    """

    fresh: AboveZero = 0.5
    keep: Count = 512
    oldest: Count = 100
    until: Natural = 0
    _groups: dict[tuple[str, int], _Stored] = field(default_factory=dict, init=False, compare=False)

    async def __call__(self, runner: Runner, ticket: Ticket) -> list[Group]:
        """Return remembered groups, or play new ones and remember them."""
        is_over = 0 < self.until <= ticket.version
        usable = self._usable(ticket) if takes_stored(ticket.number, self.fresh) and not is_over else []
        if usable:
            choice = int(generator(ticket.seed, "stored group").integers(len(usable)))
            return [_renew(group, ticket) for group in decode(json.loads(usable[choice].record))]
        groups = await independent(runner, ticket)
        if any(len({member.reward for member in group.trajectories}) > 1 for group in groups):
            self._remember(ticket, groups)
        return groups

    def state_dict(self) -> dict[str, Any]:
        """The remembered groups, by split and index of their task."""
        return {"groups": [[*task, *entry] for task, entry in self._groups.items()]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore `state_dict()`."""
        self._groups = {(split, index): _Stored(*entry) for split, index, *entry in state["groups"]}

    def _usable(self, ticket: Ticket) -> list[_Stored]:
        groups = sorted(self._groups.values())
        return [one for one in groups if one.ticket < ticket.settled and ticket.version - one.version <= self.oldest]

    def _remember(self, ticket: Ticket, groups: list[Group]) -> None:
        try:
            record = json.dumps(encode([replace(group, errored=[], others=[]) for group in groups]))
        except TypeError as error:
            raise PartError(f"--strategy replay_groups: a group cannot be recorded: {one_line(error)}") from None
        self._groups[ticket.split, ticket.index] = _Stored(ticket.number, ticket.version, record)
        while len(self._groups) > self.keep:
            del self._groups[min(self._groups, key=lambda task: self._groups[task])]


def takes_stored(number: int, fresh: float) -> bool:
    """Whether ticket `number` is to take a stored group, so that a `fresh` share of all tickets does not, evenly."""
    return math.floor((number + 1) * (1 - fresh) + 1e-9) > math.floor(number * (1 - fresh) + 1e-9)


def _renew(group: Group, ticket: Ticket) -> Group:
    """A remembered group as that of another ticket."""
    return Group(ticket, [replace(trajectory, replayed=True) for trajectory in group.trajectories])
