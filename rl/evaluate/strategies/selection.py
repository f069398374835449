"""Strategies that choose among independent samples: best-of-n by a score, and the majority of the answers.

They need no further rounds, so they also work on stored episodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from rl.evaluate.attempts import Choice, make_choice
from rl.evaluate.statistics import best_of_k
from rl.evaluate.strategies.strategy import SCORERS, Attempt, Candidates, MakeEnv, Scorer, StrategyContext
from rl.evaluate.voting import Vote, cons_at_k
from rl.methods.options import Count
from rl.records import Trajectory


@dataclass(frozen=True)
class BestOf:
    """Play n episodes and choose the one with the highest score (best-of-n over whole episodes).

    `scorer` is "logprob", the mean log-probability of the sampled tokens, or "env", the environment's own verdict. The
    latter is what a perfect verifier would reach: an upper bound, not a result of the policy.
    """

    n: Count = 8
    scorer: Literal["env", "logprob"] = "env"

    @property
    def width(self) -> int:
        """The number n: all episodes are played in the first round."""
        return self.n

    @property
    def upper_bound(self) -> bool:
        """True with the environment's verdict as the score."""
        return self.scorer == "env"

    def rounds(self, make_env: MakeEnv) -> Mapping[str, MakeEnv]:
        """Return {}: there are no further rounds, and `make_env` is not used."""
        return {}

    async def choose(self, attempts: Sequence[Attempt], context: StrategyContext) -> list[Choice]:
        """Choose the candidate with the best score; the earliest of a tie, which is unbiased for equal samples."""
        scorer = SCORERS[self.scorer]
        return [make_choice(best_candidate(a.candidates, scorer), a.member, a.candidates) for a in attempts]

    def curve(self, choices: Sequence[Choice], vote: Vote) -> dict[int, float]:
        """Return, for k = 1, 2, 4, ... and n or all there are, the success rate of the choice among k candidates.

        It is the exact mean over all subsets of k of the candidates.
        """
        candidates = [candidate for choice in choices for candidate in choice.candidates]
        scores = [SCORERS[self.scorer](candidate) for candidate in candidates]
        success = [candidate.success for candidate in candidates]
        return {k: best_of_k(scores, success, k) for k in episode_counts(min(self.n, len(success)))}


@dataclass(frozen=True)
class Majority:
    """Play n episodes and choose the first with the most frequent answer.

    Self-consistency (Wang et al. 2022, arXiv:2203.11171). Answers are read by the environment's `vote`, else they are
    the last replies. An episode without an answer never wins against one with an answer.
    """

    n: Count = 8

    @property
    def width(self) -> int:
        """The number n: all episodes are played in the first round."""
        return self.n

    @property
    def upper_bound(self) -> bool:
        """False: answers are counted, not graded."""
        return False

    def rounds(self, make_env: MakeEnv) -> Mapping[str, MakeEnv]:
        """Return {}: there are no further rounds, and `make_env` is not used."""
        return {}

    async def choose(self, attempts: Sequence[Attempt], context: StrategyContext) -> list[Choice]:
        """Choose the earliest candidate of the most frequent answer; of tied answers the one that came first."""
        choices = []
        for attempt in attempts:
            winner, has_answer = majority_candidate(attempt.candidates, context.vote)
            choices.append(make_choice(winner, attempt.member, attempt.candidates, fallback=not has_answer))
        return choices

    def curve(self, choices: Sequence[Choice], vote: Vote) -> dict[int, float]:
        """Return, for k = 1, 2, 4, ... and n or all there are, the success rate of the choice among k candidates.

        It is the exact mean over all subsets of k of the candidates.
        """
        candidates = [candidate for choice in choices for candidate in choice.candidates]
        votes, success = [vote(candidate) for candidate in candidates], [candidate.success for candidate in candidates]
        return {k: cons_at_k(votes, success, k) for k in episode_counts(min(self.n, len(success)))}


def best_candidate(candidates: Candidates, scorer: Scorer) -> Trajectory:
    """Return the candidate for which `scorer` returns the highest value, the earliest of a tie."""
    return max(candidates, key=scorer)


def majority_candidate(candidates: Candidates, vote: Vote) -> tuple[Trajectory, bool]:
    """Return the earliest candidate of the most frequent answer, and whether any candidate has an answer.

    `vote` returns the answer of an episode, None for no answer. Of tied answers the one that came first wins; without
    any answer it is the first candidate.
    """
    votes = [vote(candidate) for candidate in candidates]
    counts = Counter(answer for answer in votes if answer is not None)
    if not counts:
        return candidates[0], False
    return candidates[votes.index(counts.most_common(1)[0][0])], True


def episode_counts(limit: int) -> list[int]:
    """Return 1, 2, 4, ... up to `limit`, and `limit` itself: the numbers of episodes of a strategy's curve."""
    return sorted({2**e for e in range(limit.bit_length())} | {limit})
