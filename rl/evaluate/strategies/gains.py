"""What a strategy bought: its success against a single episode's and against a perfect choice's, and at what cost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from rl.evaluate.attempts import Choice, cost
from rl.evaluate.voting import Vote
from rl.records import Trajectory

if TYPE_CHECKING:
    from rl.evaluate.strategies.strategy import Strategy


@dataclass(frozen=True, slots=True)
class Point:
    """Success and sampled tokens of an attempt with a number of episodes."""

    success: float
    tokens: float


@dataclass(frozen=True, slots=True)
class Gain:
    """A strategy's success between that of one episode and that of the best of them all; means over tasks.

    `efficiency` is `(success - one) / (any - one)`, the share of what a perfect choice would gain; None where that is
    nothing. `upper_bound` says that the choice read the environment's verdict. `curve` holds success and tokens by
    the number of episodes allowed, `fallbacks` the attempts where no choice could be read.
    """

    strategy: str
    upper_bound: bool
    success: float
    one: float
    any: float
    efficiency: float | None
    curve: dict[int, Point]
    fallbacks: int

    @classmethod
    def of(cls, strategy: Strategy, word: str, tasks: Mapping[str, Sequence[Trajectory]], vote: Vote) -> Gain | None:
        """The figures of the choices of each task; None where nothing was scored."""
        chosen = [[t for t in task if isinstance(t, Choice)] for task in tasks.values()]
        chosen = [task for task in chosen if task]
        if not chosen:
            return None
        won = fmean(fmean(choice.success for choice in task) for task in chosen)
        top = fmean(fmean(any(t.success for t in choice.candidates) for choice in task) for task in chosen)
        success: dict[int, list[float]] = defaultdict(list)
        tokens: dict[int, list[float]] = defaultdict(list)
        for task in chosen:
            for k, value in strategy.curve(task, vote).items():
                success[k].append(value)
                tokens[k].append(fmean(_tokens(choice, k, strategy.n) for choice in task))
        # where errors left a task with fewer episodes, it ends its curve earlier, and no mean is taken beyond
        curve = {k: Point(fmean(success[k]), fmean(tokens[k])) for k in success if len(success[k]) == len(chosen)}
        one = curve[1].success
        return cls(
            strategy=word,
            upper_bound=strategy.upper_bound,
            success=won,
            one=one,
            any=top,
            efficiency=(won - one) / (top - one) if top > one else None,
            curve=curve,
            fallbacks=sum(choice.fallback for task in chosen for choice in task),
        )


def _tokens(choice: Choice, k: int, n: int) -> int:
    return cost(choice).tokens if k >= n else sum(t.num_sampled for t in choice.candidates[:k])
