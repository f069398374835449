"""How much of a solution a hard task is given, and what an episode that was helped is worth.

Legend: B members of one group, T tokens.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rl.methods.estimators.statistics import Floats


def shortest_prefix(successes: Sequence[int]) -> int | None:
    """POPE's checkpoint: the first with any success; None where there is none. Checkpoint 0 is the task unaided."""
    return next((place for place, count in enumerate(successes) if count > 0), None)


def hint_share(difficulty: float, *, least: float, most: float) -> float:
    """ADHint's share of the solution that is given: from `least` for a task that is solved to `most` for one never."""
    return 0.0 if difficulty <= 0 else least + (most - least) * difficulty


def posterior_advantages(rewards: Floats, is_guided: np.ndarray) -> Floats:
    """ADHint's advantages (B,): standardised over all members, then weighed by how much harder the task is unaided.

    With `gap` the failure rate of the members that played unaided less that of those that were helped, an unaided
    success weighs `1 + gap` and an unaided failure `1 - gap`, within 0 and 2, and the reverse where they were helped.
    """
    if len(rewards) < 2 or np.ptp(rewards) == 0:
        return np.zeros_like(rewards)
    advantages: Floats = (rewards - rewards.mean()) / (rewards.std(ddof=1) + 1e-6)
    return advantages * posterior_factors(advantages, rewards, is_guided)


def posterior_factors(advantages: Floats, rewards: Floats, is_guided: np.ndarray) -> Floats:
    """The weights (B,) of `posterior_advantages`; 1 where only one of the two kinds of members is there."""
    if is_guided.all() or not is_guided.any():
        return np.ones_like(advantages)
    gap = float(rewards[is_guided].mean() - rewards[~is_guided].mean())
    sign = np.where(is_guided, -1.0, 1.0) * np.sign(advantages)
    factors: Floats = np.clip(1 + sign * gap, 0.0, 2.0)
    return factors


def consistency(entropy: Floats, continuation: float, *, kappa: float) -> Floats:
    """ADHint's weights (T,) of a hint's tokens: the nearer 1, the nearer their entropy to that of what followed."""
    result: Floats = np.exp(-np.abs(entropy - continuation) / kappa)
    return result
