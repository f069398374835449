"""Information gains of turns, and how the methods that pay for them standardise and weigh them.

Legend: K turns of a trajectory, R turns of an update, B trajectories, T tokens of a reply, M gains that are compared
(one per turn or one per token).
"""

from __future__ import annotations

import numpy as np

from rl.methods.estimators import statistics
from rl.methods.estimators.shapes import expect_shapes
from rl.methods.estimators.statistics import Bools, Floats, Ints


def answer_gain(scores: Floats) -> Floats:
    """IGPO's gain (K,) of each turn: by how much it raised the score of the true answer.

    `scores` (K + 1,) are taken before the first turn and after each. A score is `exp(mean log-probability of the
    answer's tokens)`, or that mean itself.
    """
    return np.diff(scores)


def feedback_gain(with_feedback: Floats, without_feedback: Floats) -> float:
    """InfoPO's gain of a turn: what its feedback adds to the mean log-probability of the next reply.

    Both arrays (T,) are log-probabilities of the next reply's tokens: after the real feedback, and after a placeholder
    in its place. 0 for a reply without tokens.
    """
    expect_shapes(with_feedback=(with_feedback, "T"), without_feedback=(without_feedback, "T"))
    return float((with_feedback - without_feedback).mean()) if len(with_feedback) else 0.0


def standardise(rewards: Floats, group: Ints, *, centre: bool = True, scale: bool = True, eps: float = 1e-6) -> Floats:
    """IGPO's normalisation (arXiv:2510.14967) of rewards (R,) within each `group` (R,).

    `centre` subtracts the mean; `scale` divides by the population deviation. A reward that is alone keeps the unit 1.
    Equal rewards are 0 where they are scaled or centred.
    """
    expect_shapes(rewards=(rewards, "R"), group=(group, "R"))
    size = statistics.group_size(group)
    deviation = rewards - statistics.group_mean(rewards, group)
    if not scale:
        return deviation if centre else rewards
    std = statistics.group_std(rewards, group) * np.sqrt((size - 1) / size)
    unit = np.where(size > 1, np.sqrt(std**2 + 1e-8), 1.0) + eps
    return np.where((std > eps) | (size == 1), (deviation if centre else rewards) / unit, 0.0)


def standardise_nonzero(gains: Floats, group: Ints, *, eps: float = 1e-6) -> Floats:
    """InfoPO's normalisation of gains (M,): those that are not 0, by mean and unbiased deviation of their `group` (M,).

    A single gain, and equal gains, become 0.
    """
    expect_shapes(gains=(gains, "M"), group=(group, "M"))
    scores = np.zeros(len(gains))
    nonzero = np.nonzero(gains)[0]
    key, values = group[nonzero], gains[nonzero]
    scores[nonzero] = (values - statistics.group_mean(values, key)) / (statistics.group_std(values, key) + eps)
    return scores


def gate(spread: Floats, *, temperature: float = 0.05) -> Floats:
    """InfoPO's gate, same shape as `spread`, the standard deviation of a group's outcomes.

    1/2 where all outcomes are equal, nearly 0 where they differ.
    """
    return 1.0 / (1.0 + np.exp(spread / temperature))


def magnitude_ratio(outcome: Floats, gain: Floats) -> float:
    """InfoPO's bound: the factor, at most 1, that keeps information gains within the spread of outcomes.

    It reduces the standard deviation of `gain` (M,) to the larger of 1 and that of `outcome` (M,). It is 1 if all gains
    are equal.
    """
    expect_shapes(outcome=(outcome, "M"), gain=(gain, "M"))
    spread = np.sqrt(statistics.variance(gain))
    return min(1.0, max(float(np.sqrt(statistics.variance(outcome))), 1.0) / spread) if spread else 1.0


def has_next_turn(index: Ints, num_turns: Ints, trajectory: Ints) -> Bools:
    """Whether another turn follows each turn (R,), so that the policy has read its feedback.

    `index` (R,) is the turn's place in its trajectory, `trajectory` (R,) that one's number; `num_turns` is (B,).
    """
    expect_shapes(index=(index, "R"), trajectory=(trajectory, "R"), num_turns=(num_turns, "B"))
    return index < num_turns[trajectory] - 1
