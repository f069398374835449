"""BroRL's balance of probability: what one step does to the answers that are right, sampled or not."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rl.methods.estimators.statistics import Floats


class MassBalance(NamedTuple):
    """The first-order change of the probability of right answers in one step, in its three terms.

    The first two are never negative. The third has either sign, and vanishes as more answers are sampled.
    """

    from_right: float
    from_wrong: float
    from_unseen: float
    mean_reward: float  # of the sampled answers, each by its probability

    @property
    def change(self) -> float:
        """The sum of the three terms."""
        return self.from_right + self.from_wrong + self.from_unseen


def mass_balance(
    p: Floats,
    is_right: np.ndarray,
    is_sampled: np.ndarray,
    *,
    right: float = 1.0,
    wrong: float = -1.0,
    rate: float = 1.0,
    count: int = 1,
) -> MassBalance:
    """BroRL (arXiv:2510.01180) on a softmax over answers of probabilities `p` (A,), after `count` samples.

    Logits move by `rate / count * p * (R - S)`, with `R` the reward `right` or `wrong` of a sampled answer and 0 of any
    other, and `S` the sum of `p R`. With counted samples and an exact mean as baseline the right answers never lose.
    """
    right_mass, wrong_mass = p[is_right].sum(), p[~is_right].sum()
    unseen_right, unseen_wrong = (p[~is_sampled & side] ** 2 for side in (is_right, ~is_right))
    mean = right * p[is_sampled & is_right].sum() + wrong * p[is_sampled & ~is_right].sum()
    step = rate / count
    return MassBalance(
        float(step * (right - mean) * wrong_mass * (p[is_sampled & is_right] ** 2).sum()),
        float(step * (mean - wrong) * right_mass * (p[is_sampled & ~is_right] ** 2).sum()),
        float(step * mean * (right_mass * unseen_wrong.sum() - wrong_mass * unseen_right.sum())),
        float(mean),
    )
