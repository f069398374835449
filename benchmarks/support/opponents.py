"""Opponents to train against, as `--env-arg opponent=benchmarks/support/opponents.py:NAME` names them."""

from __future__ import annotations

from typing import Any

import numpy as np

from envs.types import Message

PERFECT = 0.7


def mostly_perfect(env: Any, seat: str, rng: np.random.Generator) -> Message:
    """Play a perfect move, or with a probability of 0.3 any legal one, in a game that has `minimax`.

    Against perfect play alone a learner meets few positions, and against random play no good opponent.
    """
    return env.minimax(seat, rng) if rng.random() < PERFECT else env.random(seat, rng)
