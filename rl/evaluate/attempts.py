"""The record of an attempt that took several episodes, and what an attempt cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from rl.records import Trajectory


@dataclass(slots=True)
class Choice(Trajectory):
    """The episode that a test-time strategy settled on, with all that it took to get there.

    `candidates` are the episodes it had to choose from, itself among them, in the order they were played; `judging`
    the episodes in which a policy chose. `fallback` says that nobody chose and the first candidate was taken.
    """

    candidates: tuple[Trajectory, ...] = ()
    judging: tuple[Trajectory, ...] = ()
    fallback: bool = False


class Cost(NamedTuple):
    """Replies and sampled tokens."""

    turns: int
    tokens: int


def cost(trajectory: Trajectory) -> Cost:
    """What an attempt cost: every candidate and every judgement of a `Choice`, or the episode itself."""
    episodes = (*trajectory.candidates, *trajectory.judging) if isinstance(trajectory, Choice) else (trajectory,)
    return Cost(sum(len(t.turns) for t in episodes), sum(t.num_sampled for t in episodes))


def settled(
    chosen: Trajectory,
    member: int,
    candidates: tuple[Trajectory, ...],
    judging: tuple[Trajectory, ...] = (),
    fallback: bool = False,
) -> Choice:
    """`chosen` as the attempt number `member` of its task."""
    return Choice(
        turns=chosen.turns,
        stop=chosen.stop,
        success=chosen.success,
        task=candidates[0].task,
        seed=chosen.seed,
        member=member,
        agent=chosen.agent,
        answer=chosen.answer,
        final=chosen.final,
        candidates=candidates,
        judging=judging,
        fallback=fallback,
    )
