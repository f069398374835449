"""Verified successes put back into groups that found none."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

from rl.methods.options import Count
from rl.methods.parts.strategy.independent import independent
from rl.records import Group, Ticket, Trajectory
from rl.rollout.runner import Runner
from rl.seeds import generator


class _Kept(NamedTuple):
    """A success: the ticket it was played for, the policy version then, and the record, pickled.

    Bytes are a fresh copy at every use, and cost nothing where the state of a run is copied at every update.
    """

    ticket: int
    version: int
    record: bytes


@dataclass
class replay:
    """RLEP (arXiv:2507.07451): `added` recorded successes of the same task join a group that failed.

    With `when="failed"` they join where no member succeeded, with `"unsolved"` where any did not. A member that says
    the same is not doubled. Of each task the `keep` latest successes are remembered, as they were sampled: importance
    ratios come from their own log-probabilities. None is used more than `oldest` policy versions after its ticket, nor
    before an update has used up its group, nor where the task opens with other words than it did then. They are marked
    `replayed`, and follow the members that were played.
    """

    added: Count = 1
    keep: Count = 4
    oldest: Count = 100
    when: Literal["failed", "unsolved"] = "failed"
    _kept: dict[tuple[str, int], list[_Kept]] = field(default_factory=dict, init=False)
    _open: dict[int, Ticket] = field(default_factory=dict, init=False)  # being played

    async def __call__(self, runner: Runner, ticket: Ticket) -> Group:
        """Play every member from the start, and add to them."""
        self._open[ticket.number] = ticket
        try:
            group = await independent(runner, ticket)
            self._add(group)
        finally:
            del self._open[ticket.number]
        return group

    def state_dict(self) -> dict[str, Any]:
        """What is remembered, by task."""
        return {"kept": {task: [tuple(one) for one in kept] for task, kept in self._kept.items()}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from `state_dict()`."""
        self._kept = {task: [_Kept(*one) for one in kept] for task, kept in state["kept"].items()}

    def _add(self, group: Group) -> None:
        """Put successes in, then remember those that are new."""
        ticket, played = group.ticket, list(group.trajectories)
        kept = self._kept.pop((ticket.split, ticket.index), [])
        solved = [member for member in played if member.success]
        if played and len(solved) < (1 if self.when == "failed" else len(played)):
            for place, record in enumerate(self._chosen(kept, ticket, played), ticket.size):
                put_in = replace(record, member=place, replayed=True)
                group.trajectories.append(put_in)
                group.rewards.append(put_in.reward)
        kept += [_Kept(ticket.number, ticket.version, pickle.dumps(member)) for member in solved[-self.keep :]]
        self._remember((ticket.split, ticket.index), sorted(kept, key=lambda one: one.ticket))

    def _chosen(self, kept: list[_Kept], ticket: Ticket, played: list[Trajectory]) -> list[Trajectory]:
        """At most `added` of the successes that this ticket may use, drawn by its seed."""
        usable = [one for one in kept if one.ticket < ticket.settled and self._is_young(one, ticket)][-self.keep :]
        records = [pickle.loads(usable[i].record) for i in generator(ticket.seed, "replay").permutation(len(usable))]
        said, chosen = {_said(member) for member in played}, list[Trajectory]()
        for record in records:
            if _opening(record) == _opening(played[0]) and _said(record) not in said and len(chosen) < self.added:
                said.add(_said(record))
                chosen.append(record)
        return chosen

    def _remember(self, task: tuple[str, int], kept: list[_Kept]) -> None:
        """Keep what a ticket can still use, be it open or yet to come; forget tasks that were not seen for too long."""
        first = self._open[min(self._open)]
        settled = [one for one in kept if one.ticket < first.settled]
        usable = [one for one in settled if self._is_young(one, first)]
        if left := [*usable[-self.keep :], *kept[len(settled) :]]:
            self._kept[task] = left
        while self._kept and not self._is_young(self._kept[seen := next(iter(self._kept))][-1], first):
            del self._kept[seen]

    def _is_young(self, one: _Kept, ticket: Ticket) -> bool:
        return ticket.version - one.version <= self.oldest


def _said(trajectory: Trajectory) -> tuple[tuple[int, ...], ...]:
    """The sampled tokens, turn by turn."""
    return tuple(turn.completion.ids for turn in trajectory.turns)


def _opening(trajectory: Trajectory) -> tuple[int, ...]:
    return trajectory.turns[0].context
