"""Where a training run stands: what a checkpoint holds besides the weights and the optimiser."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy, deepcopy
from dataclasses import dataclass, field
from typing import Any, cast

from rl.methods.parts.sampler import History
from rl.methods.recipe import Recipe
from rl.records import Group, Ticket
from rl.rollout.runner import Runner


@dataclass
class Progress:
    """Where a run stands. Together with the weights and the optimiser, all that is needed to resume it.

    Tickets are numbered in the order of their admission.

    Attributes:
        history: Results by task, which the recipe's sampler reads.
        update: Number of updates made.
        admitted: Number of tickets opened so far, which is the number of the next one.
        consumed: Updates have used up all tickets below this number.
        used: Tickets from there on that updates have used up, out of their order.
        open: Tickets whose groups are being played, by number.
        ended: Groups of tickets that have ended and are not used up, by ticket, each with whether to train on it; in
            the order in which they ended.
        num_usable: How many of those gave something to train on. `refuse` takes one of them back.
        requeued: Tasks to play again, because their groups were too old to be trained on.
        refused: Groups refused since a group was last kept.
        episodes: Training episodes that ended properly.
        tokens: Tokens sampled for training.
        seconds: Sum of the duration of all updates.

    """

    history: History
    update: int = 0
    admitted: int = 0
    consumed: int = 0
    used: set[int] = field(default_factory=set)
    open: dict[int, Ticket] = field(default_factory=dict)
    ended: dict[int, list[tuple[Group, bool]]] = field(default_factory=dict)
    num_usable: int = 0
    requeued: list[int] = field(default_factory=list)
    refused: list[Group] = field(default_factory=list)
    episodes: int = 0
    tokens: int = 0
    seconds: float = 0.0

    def use_up(self, numbers: Sequence[int]) -> None:
        """Note that an update uses up these tickets, which have ended."""
        for number in numbers:
            self.num_usable -= is_usable(self.ended.pop(number))
        self.used.update(numbers)
        while self.consumed in self.used:
            self.used.remove(self.consumed)
            self.consumed += 1

    def refuse(self, number: int) -> None:
        """Train on no group of a ticket that has ended and gave something to train on."""
        self.ended[number] = [(group, False) for group, _ in self.ended[number]]
        self.num_usable -= 1

    def finish_ticket(self, ticket: Ticket, of_ticket: list[tuple[Group, bool]]) -> None:
        """Take over what came of an open ticket, and report it to the history.

        `of_ticket` are its groups, each with whether to train on it. Members that were replayed or guided say nothing
        of how hard the task is, and are left out of the history, as are records that further seats or roles have of a
        member's episode.
        """
        del self.open[ticket.number]
        self.ended[ticket.number] = of_ticket
        self.num_usable += is_usable(of_ticket)
        self.history.close(ticket.index)
        by_group = [[t for t in group.trajectories if not (t.replayed or t.guided)] for group, _ in of_ticket]
        first: dict[int, str] = {}  # the seat or role that each member is counted by
        records = [one for of_group in by_group for one in of_group]
        members = [one for one in records if first.setdefault(one.member, one.agent) == one.agent]
        if members:
            self.history.record(
                ticket.index,
                sum(member.reward for member in members) / len(members),
                successes=sum(member.success for member in members),
                size=len(members),
                is_varied=any(len({member.reward for member in of_group}) > 1 for of_group in by_group),
                is_kept=is_usable(of_ticket),
                update=self.update,
                lag=self.update - ticket.version,
            )

    def state_dict(self, runner: Runner, recipe: Recipe) -> dict[str, Any]:
        """Return the progress, the episodes in flight, and the state of the recipe's parts, for `load_state_dict`."""
        return state_of(self.snapshot(runner, recipe))

    def snapshot(self, runner: Runner, recipe: Recipe) -> dict[str, Any]:
        """Return what `state_of` makes a state of, by name: a copy that stays as it is.

        Turns are shared with the run. Later updates change nothing in them except for adding streams.
        """
        fields = {name: copy(getattr(self, name)) for name in _STATE_FIELDS}
        parts = deepcopy(recipe.state_dict())
        episodes = runner.play_state.state_dict()
        return {**fields, "history": self.history.snapshot(), **episodes, "parts": parts}

    def load_state_dict(self, state: dict[str, Any], runner: Runner, recipe: Recipe) -> None:
        """Restore what `state_dict` returned, into this object, `runner` and `recipe`."""
        for name in _STATE_FIELDS:
            if name in state:  # those of a checkpoint from before there were others stay empty
                setattr(self, name, copy(state[name]))
        # A checkpoint from before there were seats has one group for each ticket.
        self.ended.update({number: [cast(Any, one)] for number, one in self.ended.items() if isinstance(one, tuple)})
        self.num_usable = sum(map(is_usable, self.ended.values()))
        self.history.load_state_dict(state["history"])
        recipe.load_state_dict(state["parts"])
        runner.play_state.load_state_dict(state)


def state_of(snapshot: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state that a snapshot of the progress stands for."""
    return {**snapshot, "history": snapshot["history"].state_dict()}


def is_usable(results: Sequence[tuple[Group, bool]]) -> bool:
    """Whether a ticket gave anything to train on."""
    return any(is_kept for _, is_kept in results)


_STATE_FIELDS = (
    *("update", "admitted", "consumed", "used", "open", "ended", "requeued", "refused"),
    *("episodes", "tokens", "seconds"),
)


def capacity(
    lag: int, groups: int, update: int, *, usable: int, running: int, concurrency: float = float("inf")
) -> int:
    """Return how many groups may be opened now; a negative number says how many are open beyond the limit.

    AReaL's rule (arXiv:2505.24298, section 5.1): the groups that were ever opened for training may be those of
    `lag + 1` updates more than the `update` that have been made, `groups` each. So a group that is opened now is
    trained on at most `lag` updates later. `usable` counts the groups of all updates so far and those that have ended
    and wait, `running` those that are being played, of which there are never more than `concurrency`.
    """
    return int(min(concurrency - running, (lag + update + 1) * groups - (usable + running)))
