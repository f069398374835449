"""The record of an attempt at a task that took several episodes, and the cost of an attempt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from rl.records import Trajectory


@dataclass(slots=True)
class Choice(Trajectory):
    """The episode that a test-time strategy chose as its attempt, and all episodes that the choice needed.

    `candidates` are the episodes it chose from, in the order they were played; the chosen one is among them.
    `judgements` are the episodes in which a policy named the best candidate. `fallback` is true if no choice could be
    made and the first candidate was taken.
    """

    candidates: tuple[Trajectory, ...] = ()
    judgements: tuple[Trajectory, ...] = ()
    fallback: bool = False


class Cost(NamedTuple):
    """What an attempt costs: its number of replies to the environment and of all sampled tokens."""

    turns: int
    tokens: int


def cost(trajectory: Trajectory) -> Cost:
    """Return the cost of an attempt: of all candidates and judgements of a `Choice`, else of the one episode."""
    episodes = (*trajectory.candidates, *trajectory.judgements) if isinstance(trajectory, Choice) else (trajectory,)
    return Cost(sum(len(t.replies) for t in episodes), sum(t.num_sampled for t in episodes))


def make_choice(
    selection: Trajectory,
    member: int,
    candidates: tuple[Trajectory, ...],
    judgements: tuple[Trajectory, ...] = (),
    fallback: bool = False,
) -> Choice:
    """Return the candidate `selection` as a `Choice`; `member` is the number of the attempt at its task, from 0.

    `candidates` are all episodes that it was chosen from and `judgements` those in which a policy named the best. Set
    `fallback` if no choice could be made.
    """
    return Choice(
        turns=selection.turns,
        stop=selection.stop,
        success=selection.success,
        task=candidates[0].task,
        seed=selection.seed,
        member=member,
        agent=selection.agent,
        answer=selection.answer,
        final=selection.final,
        candidates=candidates,
        judgements=judgements,
        fallback=fallback,
    )
