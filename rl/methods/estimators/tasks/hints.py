"""How much of a solution a hard task is given, and what an episode that was helped is worth.

Legend: B members of one group.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rl.methods.estimators.statistics import Floats


def shortest_prefix(successes: Sequence[int]) -> int | None:
    """POPE's checkpoint: the first with any success; None where there is none. Checkpoint 0 is the task unaided."""
    return next((place for place, count in enumerate(successes) if count > 0), None)


def first_error(scores: Sequence[float], threshold: float) -> int | None:
    """The place of the first score below `threshold`; None where there is none. All before it is worth keeping."""
    return next((place for place, score in enumerate(scores) if score < threshold), None)


def hint_share(difficulty: float, *, least: float, most: float) -> float:
    """ADHint's share of the solution that is given: from `least` for a task that is solved to `most` for one never."""
    return 0.0 if difficulty <= 0 else least + (most - least) * difficulty


def posterior_factors(advantages: Floats, rewards: Floats, is_guided: np.ndarray) -> Floats:
    """ADHint's weights (B,) of advantages, by how much harder the task is unaided than with a hint.

    With `gap` the failure rate of the members that played unaided less that of those that were helped, an unaided
    success weighs `1 + gap` and an unaided failure `1 - gap`, within 0 and 2, and the reverse where they were helped.
    All weights are 1 where only one of the two kinds of members is there.
    """
    if is_guided.all() or not is_guided.any():
        return np.ones_like(advantages)
    gap = float(rewards[is_guided].mean() - rewards[~is_guided].mean())
    sign = np.where(is_guided, -1.0, 1.0) * np.sign(advantages)
    factors: Floats = np.clip(1 + sign * gap, 0.0, 2.0)
    return factors
