"""Numbers a model must supply before credit: `async (scorer, groups) -> None`, filling `Turn.streams`.

A recipe rarely names these itself: `rl.recipe.scores` adds the one that gives a stream another part reads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from rl.records import Group, Trajectory

PerTurn = list[tuple[float, ...]]  # one tuple per turn, one number per sampled token


class Scorer(Protocol):
    """The models of a run, asked for one number per sampled token. Answers are detached, in the order asked."""

    def values(self, trajectories: Sequence[Trajectory]) -> list[PerTurn]:
        """The critic's value before each sampled token."""
        ...

    def reference(self, trajectories: Sequence[Trajectory]) -> list[PerTurn]:
        """The frozen reference policy's log-probability of each sampled token."""
        ...


async def value(scorer: Scorer, groups: Sequence[Group]) -> None:
    """Fill the stream `value` from the critic."""
    await _fill("value", scorer.values, groups)


async def reference(scorer: Scorer, groups: Sequence[Group]) -> None:
    """Fill the stream `ref` from the frozen reference policy."""
    await _fill("ref", scorer.reference, groups)


async def _fill(stream: str, ask: Callable[[Sequence[Trajectory]], list[PerTurn]], groups: Sequence[Group]) -> None:
    trajectories = [trajectory for group in groups for trajectory in group.trajectories]
    answers = ask(trajectories)  # on the loop's own thread: a run stays a pure function of its seed
    for trajectory, per_turn in zip(trajectories, answers, strict=True):
        for turn, numbers in zip(trajectory.turns, per_turn, strict=True):
            if len(numbers) != len(turn.completion.ids):
                raise ValueError(f"stream {stream!r}: {len(numbers)} numbers for {len(turn.completion.ids)} tokens")
            turn.streams[stream] = tuple(numbers)
