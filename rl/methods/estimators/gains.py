"""What a turn told the policy: information gains, and what they are worth. Arrays run over R turns unless said."""

from __future__ import annotations

import numpy as np

from rl.methods.estimators import statistics
from rl.methods.estimators.statistics import Bools, Floats, Ints


def answer_gain(before: Floats) -> Floats:
    """IGPO's gain (K,) of each turn, from the answer's probability before any and after each of them (K + 1,).

    The difference of `exp(mean log-probability of the answer's tokens)`, or of the means where those are passed.
    """
    return np.diff(before)


def feedback_gain(told: Floats, hidden: Floats) -> float:
    """InfoPO's gain of a turn: what its feedback adds to the mean log-probability of the next reply's tokens (T,).

    `told` are log-probabilities after the real feedback, `hidden` after a placeholder in its place.
    """
    return float((told - hidden).mean()) if len(told) else 0.0


def standardised(rewards: Floats, key: Ints, *, centre: bool = True, scale: bool = True, eps: float = 1e-6) -> Floats:
    """IGPO's normalisation (arXiv:2510.14967): by mean and population deviation among rows of the same `key`.

    A row that is alone keeps the unit 1. Equal rewards are 0 when centred.
    """
    size = statistics.group_size(key)
    deviation = rewards - statistics.group_mean(rewards, key)
    if not scale:
        return deviation if centre else rewards
    std = statistics.group_std(rewards, key) * np.sqrt((size - 1) / size)
    unit = np.where(size > 1, np.sqrt(std**2 + 1e-8), 1.0) + eps
    return np.where((std > eps) | (size == 1), (deviation if centre else rewards) / unit, 0.0)


def standardised_where_told(gains: Floats, group: Ints, *, eps: float = 1e-6) -> Floats:
    """InfoPO's normalisation: gains that are not 0 against mean and unbiased deviation of those of their group.

    One gain alone, and equal gains, become 0.
    """
    scores = np.zeros(len(gains))
    told = np.nonzero(gains)[0]
    key, values = group[told], gains[told]
    scores[told] = (values - statistics.group_mean(values, key)) / (statistics.group_std(values, key) + eps)
    return scores


def gate(spread: Floats, *, temperature: float = 0.05) -> Floats:
    """InfoPO's gate from the standard deviation of a group's outcomes: 1/2 where all are equal, nearly 0 where not."""
    return 1.0 / (1.0 + np.exp(spread / temperature))


def guard(outcome: Floats, gain: Floats) -> float:
    """InfoPO's bound: the factor that keeps the deviation of `gain` within that of `outcome`, or within 1."""
    spread = np.sqrt(statistics.variance(gain))
    return min(1.0, max(float(np.sqrt(statistics.variance(outcome))), 1.0) / spread) if spread else 1.0


def coverage_gain(similarity: Floats) -> Floats:
    """StepSearch's gain (K,) of each search: how much nearer it brought the documents that hold the answer.

    `similarity` (K, G) is the best of what search `k` returned to golden document `g`; what an earlier search reached
    counts no more.
    """
    if not similarity.size:
        return np.zeros(len(similarity))
    best = np.maximum.accumulate(np.vstack([np.zeros(similarity.shape[1]), similarity]), axis=0)
    return np.diff(best, axis=0).mean(1)


def repetition(returned: list[list[str]]) -> Floats:
    """StepSearch's redundancy (K,): the share of a search's documents that it or an earlier one gave before."""
    seen: set[str] = set()
    shares = []
    for documents in returned:
        again = 0
        for document in documents:
            again += document in seen
            seen.add(document)
        shares.append(again / len(documents) if documents else 0.0)
    return np.array(shares)


def told_turns(index: Ints, counts: Ints, trajectory: Ints) -> Bools:
    """The turns (R,) after which another one came: those whose feedback was read."""
    return index < counts[trajectory] - 1
