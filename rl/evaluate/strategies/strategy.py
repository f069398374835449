"""The protocol of a test-time strategy, and `apply_strategy`, which plays its rounds and groups its choices."""

from __future__ import annotations

import math
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import gymnasium

from envs.suite import Suite
from rl.evaluate.attempts import Choice
from rl.evaluate.voting import Vote
from rl.records import Group, Ticket, Trajectory

MakeEnv = Callable[[], gymnasium.Env]
PlayTickets = Callable[[Sequence[Ticket]], Coroutine[Any, Any, list[Group]]]
Candidates = tuple[Trajectory, ...]
Scorer = Callable[[Trajectory], Any]  # returns values that can be compared


class Strategy(Protocol):
    """How several episodes of a task become one attempt at it.

    `n` is the largest number of episodes of an attempt.
    """

    n: int

    @property
    def width(self) -> int:
        """Number of episodes of an attempt in the first round."""
        ...

    @property
    def upper_bound(self) -> bool:
        """Whether the strategy reads the environment's verdict, which is known only in an evaluation."""
        ...

    def rounds(self, make_env: MakeEnv) -> Mapping[str, MakeEnv]:
        """Return functions that make the environments of further rounds, by the name of the round.

        Empty for a strategy that needs the first round only. `make_env` creates the environment of the first round.
        """
        ...

    async def choose(self, attempts: Sequence[Attempt], context: StrategyContext) -> list[Choice]:
        """Return one choice per attempt, in their order. Every attempt has at least one candidate.

        `context` offers to play further episodes. Raises `ValueError` if it lacks what the strategy needs.
        """
        ...

    def curve(self, choices: Sequence[Choice], vote: Vote) -> dict[int, float]:
        """Return the success rate on one task by the largest number of episodes: 1, 2, 4, ... as far as played.

        `choices` are the task's attempts. `vote` returns the answer of an episode, None for no answer.
        """
        ...


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt at a task: its ticket, its number among the ticket's attempts and the first round's episodes."""

    ticket: Ticket
    member: int
    candidates: Candidates


@dataclass
class StrategyContext:
    """What a strategy may use besides the candidates of an attempt.

    `vote` returns the answer of an episode, None for no answer. `play` plays tickets of further rounds with the policy
    and returns their groups in order; None for stored episodes. `next_number` is the number of the next ticket.
    """

    vote: Vote
    play: PlayTickets | None = None
    next_number: int = 0

    async def play_round(self, split: str, seeds: Sequence[int]) -> list[Trajectory | None]:
        """Play tasks 0, 1, 2, ... of `split` with these seeds; None for an episode that failed in every retry.

        `split` is ROUND:SPLIT with a name from `Strategy.rounds`. Raises `ValueError` without `play`.
        """
        if self.play is None:
            raise ValueError("this strategy plays further rounds; recorded episodes are not enough for it")
        first, self.next_number = self.next_number, self.next_number + len(seeds)
        groups = await self.play([Ticket(first + i, i, split, seed, 1) for i, seed in enumerate(seeds)])
        return [group.trajectories[0] if group.trajectories else None for group in groups]


def with_rounds(strategy: Strategy, make_env: MakeEnv) -> MakeEnv:
    """Return a function that creates an environment in which the strategy's further rounds can be played as well.

    The tasks of a round are in split ROUND:SPLIT, those of the first round keep their names. `make_env` creates the
    environment of the first round; it is returned if there are no others.
    """
    rounds = strategy.rounds(make_env)
    return partial(Suite, {"": make_env, **rounds}) if rounds else make_env


def widen_tickets(strategy: Strategy, tickets: Sequence[Ticket]) -> list[Ticket]:
    """Return the tickets of the first round: each member of a ticket, an attempt, becomes `strategy.width` members."""
    return [replace(ticket, size=ticket.size * strategy.width) for ticket in tickets]


async def apply_strategy(strategy: Strategy, groups: Sequence[Group], context: StrategyContext) -> list[Group]:
    """Turn the groups of the first round into groups of choices, with one member per attempt, in the same order.

    `groups` come from the tickets of `widen_tickets`. Members `i * width` to `(i + 1) * width - 1` of a group are the
    candidates of attempt `i`. Failed candidates are left out; an attempt whose candidates all failed is errored. If the
    size of a group is no multiple of `width`, as may be with stored episodes, the last attempt has fewer candidates.
    """
    context.next_number = max(context.next_number, 1 + max((group.ticket.number for group in groups), default=-1))
    attempts: list[Attempt] = []
    results: dict[int, Group] = {}
    for group in groups:
        ticket = replace(group.ticket, size=-(-group.ticket.size // strategy.width))
        results[ticket.number] = Group(ticket, [])
        trajectories = {trajectory.member: trajectory for trajectory in group.trajectories}
        failures = {trajectory.member: trajectory for trajectory in group.errored}
        for number in range(ticket.size):
            members = range(number * strategy.width, (number + 1) * strategy.width)
            candidates = tuple(trajectories[member] for member in members if member in trajectories)
            if candidates:
                attempts.append(Attempt(ticket, number, candidates))
            else:
                errors = [replace(failures[member], member=number) for member in members if member in failures]
                results[ticket.number].errored.extend(errors[:1])
    for attempt, choice in zip(attempts, await strategy.choose(attempts, context), strict=True):
        results[attempt.ticket.number].trajectories.append(choice)
    return [Group(group.ticket, group.trajectories, group.errored) for group in results.values()]


def verdict(trajectory: Trajectory) -> tuple[bool, float]:
    """Score an episode by the environment's own verdict, known in evaluations only; return (success, return)."""
    return trajectory.success, trajectory.reward


def mean_logprob(trajectory: Trajectory) -> float:
    """Score an episode by the mean log-probability of its sampled tokens under the model at temperature 1.

    Raises `ValueError` if the policy gave no log-probabilities.
    """
    completions = [turn.completion for turn in trajectory.turns]
    logprobs = [p for completion in completions for p in completion.model_logprobs]
    # a completion with `counted` is a whole message of a chat client, whose log-probability is a placeholder
    if not logprobs or any(completion.counted is not None for completion in completions):
        raise ValueError("scorer=logprob needs the log-probabilities of the replies, and this policy gives none")
    if any(map(math.isnan, logprobs)):
        raise ValueError("scorer=logprob: vLLM's own sampler gives none at this temperature; use --engine vllm:keyed")
    return sum(logprobs) / len(logprobs)


SCORERS: Mapping[str, Scorer] = {"env": verdict, "logprob": mean_logprob}
