"""What a test-time strategy gains: its success beside that of one episode and of a perfect choice, and its cost."""

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
    """Success rate and sampled tokens of an attempt with some number of episodes."""

    success: float
    tokens: float


@dataclass(frozen=True, slots=True)
class Gain:
    """The success rate of a strategy compared with that of a single episode (`one`) and a perfect choice (`any`).

    All are means over tasks. `efficiency` is `(success - one) / (any - one)`, the share of the possible gain that the
    strategy realises; None if no gain is possible. `upper_bound` marks a choice that used the environment's verdict.
    `curve` holds success and tokens by the largest number of episodes. `fallbacks` counts the attempts in which no
    choice could be made.
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
    def from_tasks(
        cls, strategy: Strategy, spec: str, tasks: Mapping[str, Sequence[Trajectory]], vote: Vote
    ) -> Gain | None:
        """Compute the gain from the choices of each task; None if there are no choices.

        `tasks` are the scored episodes by task, of which only those that are a `Choice` count. `spec` is the text of
        the strategy, as `format_spec` writes it; `vote` returns the answer of an episode, None for no answer.
        """
        choices_by_task = [[t for t in task if isinstance(t, Choice)] for task in tasks.values()]
        choices_by_task = [choices for choices in choices_by_task if choices]
        if not choices_by_task:
            return None
        success = fmean(fmean(choice.success for choice in choices) for choices in choices_by_task)
        best = fmean(
            fmean(any(t.success for t in choice.candidates) for choice in choices) for choices in choices_by_task
        )
        successes: dict[int, list[float]] = defaultdict(list)
        tokens: dict[int, list[float]] = defaultdict(list)
        for choices in choices_by_task:
            for k, value in strategy.curve(choices, vote).items():
                successes[k].append(value)
                tokens[k].append(fmean(_tokens(strategy, choice, k) for choice in choices))
        # A task that lost episodes to errors has a shorter curve; the mean is taken only where all tasks have a value.
        curve = {
            k: Point(fmean(successes[k]), fmean(tokens[k]))
            for k in successes
            if len(successes[k]) == len(choices_by_task)
        }
        one = curve[1].success
        return cls(
            strategy=spec,
            upper_bound=strategy.upper_bound,
            success=success,
            one=one,
            any=best,
            efficiency=(success - one) / (best - one) if best > one else None,
            curve=curve,
            fallbacks=sum(choice.fallback for choices in choices_by_task for choice in choices),
        )


def _tokens(strategy: Strategy, choice: Choice, k: int) -> float:
    """Sampled tokens of an attempt limited to k episodes: of any k where all begin at once, else of the first k."""
    if k >= strategy.n:
        return cost(choice).tokens
    counts = [episode.num_sampled for episode in choice.candidates]
    return k * fmean(counts) if strategy.width > 1 else sum(counts[:k])
