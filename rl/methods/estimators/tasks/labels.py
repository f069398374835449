"""Rewards without answers: by the majority of what the members say, and by how sure they are of it.

Legend: B members of one group.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np

from rl.methods.estimators.statistics import Floats


class Majority(NamedTuple):
    """The answer that most members gave, the share of all that gave it, and which of them did, as rewards (B,)."""

    label: Hashable
    ratio: float
    rewards: list[float]


def majority(answers: Sequence[Hashable]) -> Majority:
    """TTRL's labels (arXiv:2504.16084): reward 1 for the most frequent answer, of tied ones the first; else 0.

    None is no answer: it never wins, so that nobody has a reward where there is no other.
    """
    counts = Counter(answer for answer in answers if answer is not None)
    if not counts:
        return Majority(None, 0.0, [0.0] * len(answers))
    label, count = counts.most_common(1)[0]
    return Majority(label, count / len(answers), [float(answer == label) for answer in answers])


def calmness(entropy: Floats) -> Floats:
    """ETTRL's factors (B,): `2 - H / mean(H)` of the members' entropies, at least 0; 1 where all are 0."""
    mean = float(entropy.mean()) if len(entropy) else 0.0
    factors: Floats = np.maximum(2 - entropy / mean, 0.0) if mean > 0 else np.ones_like(entropy)
    return factors
