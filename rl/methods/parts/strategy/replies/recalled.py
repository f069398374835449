"""Members that begin with what they replied when their task was last played, as far as the policy still says it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from rl.methods.options import AboveOne, Count, PartError
from rl.methods.parts import FAR_ENGINE, plays_seats, traits
from rl.methods.parts.strategy.independent import play_members
from rl.methods.parts.strategy.replies.drafts import RecordingRunner, forget_alternatives
from rl.records import Draft, Group, Ticket, Trajectory
from rl.rollout.retry import groups_by_seat
from rl.rollout.runner import Runner
from rl.rollout.seat import DraftedTurn, Start, reply_seed

Task = tuple[str, int]  # split and index


class _Visit(NamedTuple):
    """What a task was answered with: the number of its ticket, the policy version then, and the members as JSON.

    Text gives a fresh copy at every use, and costs nothing where the state of a run is copied at every update.
    """

    ticket: int
    version: int
    members: str


@traits(excludes={FAR_ENGINE: "its drafts are verified by the engine hf in the run itself"})
@plays_seats
@dataclass
class recalled:
    """SPEC-RL (arXiv:2509.23232): a member's replies at the last visit of its task are drafts of its replies now.

    The policy computes a draft in one forward pass, keeps a beginning of it and samples the rest (`rl.records.Draft`).
    What is kept has the log-probabilities and the version of the policy as it is. With `rule="keyed"` a token is kept
    if the random number that drew it draws it again, and with `"residual"` by speculative sampling, with the
    `candidates` likeliest tokens of the policy that sampled it: tokens have the distribution of a policy that does not
    depend on the draft. One that has been trained on the draft in between does, a little, under any such rule.
    `"lenient"` is the rule of the paper, which favours old tokens: kept with `min(1, lenience * p / q)`.

    A draft is used as long as its episode and the new one are the same so far, turn by turn. Its random numbers and
    tokens serve `visits` visits at most; then the member is played without one. Drafts come from groups that an update
    has used up, at most `oldest` policy versions ago. With a seed of each visit, tasks that begin with another prompt
    every time have no drafts.
    """

    rule: Literal["keyed", "residual", "lenient"] = "keyed"
    visits: Count = 3
    lenience: AboveOne = 1.6487212707
    candidates: Count = 20
    oldest: Count = 100
    _visits: dict[Task, list[_Visit]] = field(default_factory=dict, init=False)
    _open_tickets: dict[int, Ticket] = field(default_factory=dict, init=False)  # of groups that are being played

    async def __call__(self, runner: Runner, ticket: Ticket) -> list[Group]:
        """Play every member, with drafts where there are any. Raises `PartError` for an engine that takes none."""
        if not runner.policy.verifies_drafts:
            raise PartError(
                "--strategy recalled: the engine verifies no drafts (Policy.verifies_drafts); "
                "take --engine hf and --engines 1"
            )
        self._open_tickets[ticket.number] = ticket
        try:
            last = self._last_visit(ticket)
            last = [one for one in last if not runner.player(ticket, one["agent"]).is_opponent]
            starts = {(one["member"], one["agent"]): Start(drafts=self._drafts(one)) for one in last}
            playing = RecordingRunner(runner, self.candidates) if self.rule == "residual" else runner
            groups = groups_by_seat(runner, ticket, await play_members(playing, ticket, range(ticket.size), starts))
            ages = {(one["member"], one["agent"]): one["age"] for one in last}
            members = [
                _record(ticket, one, starts.get((one.member, one.agent), Start()).drafts, ages)
                for group in groups
                for one in group.trajectories
            ]
            self._remember(ticket, _Visit(ticket.number, ticket.version, json.dumps(members)))
            forget_alternatives({0: [one for group in groups for one in (*group.trajectories, *group.errored)]})
        finally:
            del self._open_tickets[ticket.number]
        return groups

    def state_dict(self) -> dict[str, Any]:
        """The visits that are remembered, as `{"visits": {(split, index): [(ticket, version, members), ...]}}`."""
        return {"visits": {task: [tuple(one) for one in visits] for task, visits in self._visits.items()}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore `state_dict()`."""
        self._visits = {task: [_Visit(*one) for one in visits] for task, visits in state["visits"].items()}

    def _last_visit(self, ticket: Ticket) -> list[dict[str, Any]]:
        """The members of the last visit that `ticket` may use and whose drafts have not served too often."""
        visits = self._visits.get((ticket.split, ticket.index), ())
        usable = [one for one in visits if one.ticket < ticket.settled and self._is_recent(one, ticket)]
        return [one for one in json.loads(usable[-1].members) if one["age"] < self.visits] if usable else []

    def _drafts(self, member: dict[str, Any]) -> list[DraftedTurn]:
        return [
            DraftedTurn(
                tuple(turn["context"]),
                Draft(
                    ids=tuple(turn["ids"]),
                    rule=self.rule,
                    seeds=tuple(turn["seeds"]),
                    logprobs=tuple(turn["logprobs"]),
                    alternatives=tuple(tuple(map(tuple, row)) for row in turn["alternatives"]),
                    lenience=self.lenience,
                ),
            )
            for turn in member["turns"]
        ]

    def _remember(self, ticket: Ticket, visit: _Visit) -> None:
        """Remember the visits of a task that an open or a later ticket can still use; forget tasks that are too old."""
        task = (ticket.split, ticket.index)
        visits = sorted((*self._visits.pop(task, ()), visit), key=lambda one: one.ticket)
        first = self._open_tickets[min(self._open_tickets)]
        past = [one for one in visits if one.ticket < first.settled]
        self._visits[task] = [*past[-1:], *visits[len(past) :]]
        while self._visits:  # tasks stand in the order in which they were last played
            oldest = next(iter(self._visits))
            if self._is_recent(self._visits[oldest][-1], first):
                break
            del self._visits[oldest]

    def _is_recent(self, visit: _Visit, ticket: Ticket) -> bool:
        return ticket.version - visit.version <= self.oldest


def _record(
    ticket: Ticket, member: Trajectory, drafts: Sequence[DraftedTurn], ages: dict[tuple[int, str], int]
) -> dict[str, Any]:
    """What the next visit needs of a member."""
    key, turns, is_same = (member.member, member.agent), [], True
    for k, turn in enumerate(member.turns):
        reply, seeds = turn.completion, list[int]()
        is_same = is_same and k < len(drafts) and drafts[k].context == turn.context
        if is_same:  # the token in place of the first that was not kept was drawn by the draft's seed too
            seeds += drafts[k].draft.seeds[: reply.num_verified + 1]
            is_same = drafts[k].draft.ids == reply.ids
        seeds += [reply_seed(ticket, member.member, k, member.agent)] * len(reply.ids)
        turns.append(
            {
                "context": turn.context,
                "ids": reply.ids,
                "seeds": seeds[: len(reply.ids)],
                "logprobs": reply.logprobs,
                "alternatives": reply.alternatives,
            }
        )
    age = ages.get(key, -1) + 1 if any(turn.completion.num_verified for turn in member.turns) else 0
    return {"member": member.member, "agent": member.agent, "age": age, "turns": turns}
