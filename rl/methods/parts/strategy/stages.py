"""Groups that grow by what their first episodes were worth: more for the hard, or for those that vary most."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import stdev
from typing import Any, Literal

from envs.types import Stop
from rl.methods.estimators import priors
from rl.methods.estimators.tasks import allocation
from rl.methods.options import Count, NonNegative, Positive, Share
from rl.methods.parts import plays_seats
from rl.methods.parts.strategy.independent import play_members
from rl.records import Group, Ticket, Trajectory
from rl.rollout.faults import Match
from rl.rollout.retry import groups_by_seat
from rl.rollout.runner import Runner

RECENT, MEMORY = 64, 4096  # groups that the mean over all tasks is of, and groups that are remembered
Numbers = tuple[float, int, int]  # of a ticket's first stage: deviation of rewards, how many, episodes still to give


@plays_seats
async def more_for_hard(
    runner: Runner,
    ticket: Ticket,
    *,
    weigh: Literal["equal", "hardness"] = "equal",
    most: Positive = 4.0,
    scaled: bool = False,
) -> list[Group]:
    """DARS (arXiv:2508.13755): play the group, then as many episodes more as a task of its success rate should have.

    With `weigh="equal"`, a task solved in less than half of the episodes gets what makes the sum of its advantages as
    large as that of one solved in half of them; with `"hardness"`, up to twice that. A group has at most `most` times
    its size. `scaled` is for advantages that are divided by their deviation.
    """
    attempts = await play_members(runner, ticket, range(ticket.size))
    members = _last(attempts)
    if members:
        accuracy = sum(member.success for member in members) / len(members)
        limit, is_weighed = round(most * ticket.size), weigh == "hardness"
        extra = allocation.more_for_hard(accuracy, ticket.size, most=limit, weigh_hardness=is_weighed, is_scaled=scaled)
        attempts += await play_members(runner, ticket, range(ticket.size, ticket.size + extra))
    return groups_by_seat(runner, ticket, attempts)


@plays_seats
@dataclass
class by_priority:
    """XRPO (arXiv:2510.06672): share the later episodes of all groups that were opened together by what they may tell.

    Each group plays a `first` share of its episodes. Once all have done so, what is left of the budget goes, one by
    one, to the task whose mean reward would become most certain, plus `bonus * sqrt(log(1 + T) / n)` with `n` its
    episodes and `T` all of them. A group that is opened alone keeps its episodes. Groups with an infrastructure fault
    in all first episodes get no more.

    Attributes:
        first: Share of each group's episodes that is played first, at least two.
        bonus: Weight of tasks with few episodes.

    """

    first: Share = 0.5
    bonus: NonNegative = 0.05
    _waves: dict[int, dict[int, Numbers]] = field(default_factory=dict, init=False, compare=False)  # by first ticket
    _done: dict[int, list[int]] = field(default_factory=dict, init=False, compare=False)
    _events: dict[int, asyncio.Event] = field(default_factory=dict, init=False, compare=False, repr=False)
    _shares: dict[int, Counter[int]] = field(default_factory=dict, init=False, compare=False, repr=False)

    async def __call__(self, runner: Runner, ticket: Ticket) -> list[Group]:
        """Play the first stage, wait for that of the groups opened together with this one, and play the second."""
        size = min(ticket.size, max(2, round(self.first * ticket.size)))
        attempts = await play_members(runner, ticket, range(size))
        extra = await self._share(ticket, _last(attempts), ticket.size - size)
        attempts += await play_members(runner, ticket, range(size, size + extra))
        self._forget(ticket)
        return groups_by_seat(runner, ticket, attempts)

    def state_dict(self) -> dict[str, Any]:
        """The first stages of the groups that are being played, by the ticket with which they were opened."""
        waves = [[wave, number, *numbers] for wave, of in self._waves.items() for number, numbers in of.items()]
        return {"waves": waves, "done": [[wave, *numbers] for wave, numbers in self._done.items()]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore `state_dict()`."""
        self._waves = {}
        for wave, number, deviation, count, rest in state["waves"]:
            self._waves.setdefault(wave, {})[number] = deviation, count, rest
        self._done = {wave: list(numbers) for wave, *numbers in state["done"]}

    async def _share(self, ticket: Ticket, members: Sequence[Trajectory], rest: int) -> int:
        """How many of the wave's later episodes this ticket gets."""
        rewards = [member.reward for member in members]
        wave, count = _wave_of(ticket)
        stage = self._waves.setdefault(wave, {})
        stage[ticket.number] = (stdev(rewards) if len(rewards) > 1 else 0.0), len(rewards), rest
        event = self._events.setdefault(wave, asyncio.Event())
        if len(stage) >= count:
            event.set()
        await event.wait()
        if wave not in self._shares:
            numbers = [number for number in sorted(stage) if stage[number][1]]  # the others failed by a fault of ours
            budget = sum(stage[number][2] for number in stage)
            deviations, counts = [stage[number][0] for number in numbers], [stage[number][1] for number in numbers]
            order = allocation.spend(deviations, counts, budget, bonus=self.bonus)
            self._shares[wave] = Counter(numbers[place] for place in order)
        return self._shares[wave][ticket.number]

    def _forget(self, ticket: Ticket) -> None:
        wave, count = _wave_of(ticket)
        numbers = self._done.setdefault(wave, [])
        if ticket.number not in numbers:
            numbers.append(ticket.number)
        if len(numbers) >= count:
            for by_wave in (self._waves, self._done, self._events, self._shares):
                by_wave.pop(wave, None)


@dataclass
class until_settled:
    """V_0.5's budget (arXiv:2603.10848): episodes until another one would tell little about how hard the task is.

    After `least` episodes, and after each further one, the error of the fused baseline (`credit=fused_prior`) is
    compared with what one more episode would leave of it; the group ends where the difference is at most `cost`, and at
    the ticket's size. So a task that comes out as it was expected to takes `least` episodes. What is expected is the
    mean of the task's last `window` groups, blended with those of all tasks as if they had been seen `smoothing` times;
    a run's first groups are played in full size.

    Attributes:
        least: Episodes of each group.
        cost: Error that an episode must save, of rewards between -1 and 1.
        window: Groups of a task that its value is the mean of.
        smoothing: Weight of the mean over all tasks, in groups.

    """

    least: Count = 4
    cost: NonNegative = 0.0039
    window: Count = 4
    smoothing: Positive = 1.0
    _means: list[tuple[int, int, float]] = field(default_factory=list, init=False, compare=False)

    async def __call__(self, runner: Runner, ticket: Ticket) -> list[Group]:
        """Play the group, one by one after the first episodes."""
        earlier = [entry for entry in self._means if entry[0] < ticket.settled]
        own = [mean for _, index, mean in earlier if index == ticket.index][-self.window :]
        everywhere = [mean for *_, mean in earlier][-RECENT:]
        first = min(self.least if everywhere else ticket.size, ticket.size)
        attempts = await play_members(runner, ticket, range(first))
        while len(attempts) < ticket.size and (members := _last(attempts)):
            mean = sum(2 * member.reward - 1 for member in members) / len(members)
            prior = priors.blend(own, everywhere, smoothing=self.smoothing)
            now, then = priors.fusion_errors(mean, prior, len(members))
            if now - then <= self.cost:
                break
            attempts += await play_members(runner, ticket, [len(attempts)])
        if members := _last(attempts):
            mean = sum(2 * member.reward - 1 for member in members) / len(members)
            self._means = sorted([*self._means, (ticket.number, ticket.index, mean)])[-MEMORY:]
        return groups_by_seat(runner, ticket, attempts)

    def state_dict(self) -> dict[str, Any]:
        """Ticket, task and mean reward of the last groups."""
        return {"means": [list(entry) for entry in self._means]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore `state_dict()`."""
        self._means = [(number, index, mean) for number, index, mean in state["means"]]


def _wave_of(ticket: Ticket) -> tuple[int, int]:
    return ticket.wave if ticket.wave[1] else (ticket.number, 1)


def _last(attempts: Sequence[Sequence[Match]]) -> list[Trajectory]:
    """The trajectories of the members that have ended properly, one for each: the first seat's."""
    last = [of_member[-1][0] for of_member in attempts if of_member]
    return [trajectory for trajectory in last if trajectory.stop != Stop.ERROR]
