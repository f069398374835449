"""Choosing among samples that are there already: best-of-n by a score, and the majority of their answers.

Both need nothing but the episodes, so they work on recorded ones too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from rl.evaluate.attempts import Choice, settled
from rl.evaluate.statistics import best_of_k
from rl.evaluate.strategies.strategy import SCORERS, Attempt, Candidates, MakeEnv, Score, Stage
from rl.evaluate.voting import Vote, cons_at_k
from rl.methods.options import Count
from rl.records import Trajectory


@dataclass(frozen=True)
class BestOf:
    """Play n episodes and take the one that a scorer puts first (best-of-n, whole episodes).

    `scorer` is "env", the environment's own verdict: what a perfect verifier would reach, so an upper bound and no
    result of the policy's own; or "logprob", the mean log-probability of the sampled tokens.
    """

    n: Count = 8
    scorer: Literal["env", "logprob"] = "env"

    @property
    def width(self) -> int:
        """All episodes are played at once."""
        return self.n

    @property
    def upper_bound(self) -> bool:
        """With the environment's verdict."""
        return self.scorer == "env"

    def rounds(self, make_env: MakeEnv) -> Mapping[str, MakeEnv]:
        """None."""
        return {}

    async def settle(self, attempts: Sequence[Attempt], stage: Stage) -> list[Choice]:
        """The candidate of the best score; the earliest of several, which is a fair draw among equal samples."""
        score = SCORERS[self.scorer]
        return [settled(best(a.candidates, score), a.member, a.candidates) for a in attempts]

    def curve(self, chosen: Sequence[Choice], vote: Vote) -> dict[int, float]:
        """The exact chance for every subset of the candidates."""
        candidates = [candidate for choice in chosen for candidate in choice.candidates]
        scores = [SCORERS[self.scorer](candidate) for candidate in candidates]
        won = [candidate.success for candidate in candidates]
        return {k: best_of_k(scores, won, k) for k in powers(min(self.n, len(won)))}


@dataclass(frozen=True)
class Majority:
    """Play n episodes and take the first that gives the most frequent answer (self-consistency, Wang et al. 2022).

    Episodes answer as their environment's `vote` says, or with their last reply. No answer never wins.
    """

    n: Count = 8

    @property
    def width(self) -> int:
        """All episodes are played at once."""
        return self.n

    @property
    def upper_bound(self) -> bool:
        """Never: answers are counted, not judged."""
        return False

    def rounds(self, make_env: MakeEnv) -> Mapping[str, MakeEnv]:
        """None."""
        return {}

    async def settle(self, attempts: Sequence[Attempt], stage: Stage) -> list[Choice]:
        """The earliest candidate of the most frequent answer; answers that tie go by their earliest candidate."""
        made = []
        for attempt in attempts:
            winner, voted = plurality(attempt.candidates, stage.vote)
            made.append(settled(winner, attempt.member, attempt.candidates, fallback=not voted))
        return made

    def curve(self, chosen: Sequence[Choice], vote: Vote) -> dict[int, float]:
        """The exact chance for every subset of the candidates."""
        candidates = [candidate for choice in chosen for candidate in choice.candidates]
        votes, won = [vote(candidate) for candidate in candidates], [candidate.success for candidate in candidates]
        return {k: cons_at_k(votes, won, k) for k in powers(min(self.n, len(won)))}


def best(candidates: Candidates, score: Score) -> Trajectory:
    """The candidate of the highest score, the earliest of several."""
    return max(candidates, key=score)


def plurality(candidates: Candidates, vote: Vote) -> tuple[Trajectory, bool]:
    """The earliest candidate of the most frequent answer, and whether there was any answer at all."""
    votes = [vote(candidate) for candidate in candidates]
    counts = Counter(answer for answer in votes if answer is not None)
    if not counts:
        return candidates[0], False
    return candidates[votes.index(counts.most_common(1)[0][0])], True


def powers(most: int) -> list[int]:
    """1, 2, 4, ... up to `most`, and `most` itself."""
    return sorted({2**e for e in range(most.bit_length())} | {most})
