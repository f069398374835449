"""What a test-time strategy is, and how one is played: a first round of episodes, then as many more as it asks for."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import gymnasium

from envs.suite import Suite
from rl.evaluate.attempts import Choice
from rl.evaluate.voting import Vote
from rl.records import Group, Ticket, Trajectory

MakeEnv = Callable[[], gymnasium.Env]
Round = Callable[[Sequence[Ticket]], Coroutine[Any, Any, list[Group]]]
Candidates = tuple[Trajectory, ...]
Score = Callable[[Trajectory], Any]  # of values that can be compared


class Strategy(Protocol):
    """How several episodes of a task become one attempt at it.

    `n` bounds the episodes of an attempt; `width` of them are played in the first round. `upper_bound` says that the
    choice looks at the environment's own verdict, which nobody has outside an evaluation.
    """

    n: int

    @property
    def width(self) -> int:
        """Episodes of the first round."""
        ...

    @property
    def upper_bound(self) -> bool:
        """Whether the strategy reads the environment's verdict."""
        ...

    def rounds(self, make_env: MakeEnv) -> Mapping[str, MakeEnv]:
        """The environments of later rounds by name, empty for a strategy that only chooses among what was played."""
        ...

    async def settle(self, attempts: Sequence[Attempt], stage: Stage) -> list[Choice]:
        """One choice for each attempt; an attempt has one candidate or more."""
        ...

    def curve(self, chosen: Sequence[Choice], vote: Vote) -> dict[int, float]:
        """The success of this strategy on one task with 1, 2, 4, ... episodes at most, as far as they were played."""
        ...


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt at a task: the ticket, its number among the ticket's attempts, and the first round's episodes."""

    ticket: Ticket
    member: int
    candidates: Candidates


@dataclass
class Stage:
    """What a strategy may use besides the candidates: the environment's votes, and further rounds with the policy."""

    vote: Vote
    play: Round | None = None
    next_number: int = 0

    async def played(self, split: str, seeds: Sequence[int]) -> list[Trajectory | None]:
        """Play task 0, 1, 2, ... of `split` with these seeds; None for an episode that failed for good."""
        if self.play is None:
            raise ValueError("this strategy plays further rounds; recorded episodes are not enough for it")
        first, self.next_number = self.next_number, self.next_number + len(seeds)
        groups = await self.play([Ticket(first + i, i, split, seed, 1) for i, seed in enumerate(seeds)])
        return [group.trajectories[0] if group.trajectories else None for group in groups]


def with_rounds(strategy: Strategy, make_env: MakeEnv) -> MakeEnv:
    """A maker of environments in which the strategy's further rounds can be played too."""
    further = strategy.rounds(make_env)
    return (lambda: Suite({"": make_env, **further})) if further else make_env


def widened(strategy: Strategy, tickets: Sequence[Ticket]) -> list[Ticket]:
    """The tickets of the first round: `width` members for every attempt."""
    return [replace(ticket, size=ticket.size * strategy.width) for ticket in tickets]


async def regrouped(strategy: Strategy, groups: Sequence[Group], stage: Stage) -> list[Group]:
    """Turn the first round's groups into groups of choices, one for each attempt.

    Members `i * width` to `(i + 1) * width - 1` of a group are the candidates of attempt `i`. An attempt chooses among
    those that ended properly; one of which none did is an error. Where a group has other than a multiple of `width`
    members, as recorded ones may, the last attempt has the candidates that are left.
    """
    stage.next_number = max(stage.next_number, 1 + max((group.ticket.number for group in groups), default=-1))
    attempts: list[Attempt] = []
    made: dict[int, Group] = {}
    for group in groups:
        ticket = replace(group.ticket, size=-(-group.ticket.size // strategy.width))
        made[ticket.number] = Group(ticket, [])
        ended = {trajectory.member: trajectory for trajectory in group.trajectories}
        failed = {trajectory.member: trajectory for trajectory in group.errored}
        for number in range(ticket.size):
            members = range(number * strategy.width, (number + 1) * strategy.width)
            found = tuple(ended[member] for member in members if member in ended)
            if found:
                attempts.append(Attempt(ticket, number, found))
            else:
                lost = [replace(failed[member], member=number) for member in members if member in failed]
                made[ticket.number].errored += lost[:1]
    for attempt, choice in zip(attempts, await strategy.settle(attempts, stage), strict=True):
        made[attempt.ticket.number].trajectories.append(choice)
    return [Group(group.ticket, group.trajectories, group.errored) for group in made.values()]


def verdict(trajectory: Trajectory) -> tuple[bool, float]:
    """Score by the environment's own verdict: success first, then the return. No policy has this outside a test."""
    return trajectory.success, trajectory.reward


def mean_logprob(trajectory: Trajectory) -> float:
    """Score by the mean log-probability of the sampled tokens, under the model at temperature 1.

    Raises `ValueError` for an episode without them.
    """
    said = [turn.completion for turn in trajectory.turns]
    drawn = [p for completion in said for p in completion.model_logprobs]
    if not drawn or any(completion.counted is not None for completion in said):  # an API's message, not its tokens
        raise ValueError("scorer=logprob needs the log-probabilities of the replies, and this policy gives none")
    return sum(drawn) / len(drawn)


SCORERS: Mapping[str, Score] = {"env": verdict, "logprob": mean_logprob}
