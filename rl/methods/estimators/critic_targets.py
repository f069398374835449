"""ArCHer (arXiv:2402.19446): an off-policy critic of whole replies teaches a policy of tokens.

Legend: R replies (turns).
"""

from __future__ import annotations

from rl.methods.estimators.shapes import expect_shapes
from rl.methods.estimators.statistics import Bools, Floats


def action_target(rewards: Floats, done: Bools, next_values: Floats, *, gamma: float = 0.95) -> Floats:
    """Regression target (R,) of `Q(o, a)`: `r + gamma * V(o')`, without the second term where the episode is done.

    `next_values` (R,) are the target network's. An episode that a limit cut short is not `done` (R,): the value of what
    would have followed still counts.
    """
    expect_shapes(rewards=(rewards, "R"), done=(done, "R"), next_values=(next_values, "R"))
    return rewards + gamma * (1.0 - done) * next_values


def advantage(q: tuple[Floats, Floats], v: tuple[Floats, Floats]) -> Floats:
    """Advantage (R,) of sampled replies: `min(Q_1, Q_2) - min(V_1, V_2)`, the lesser of twin estimates of each."""
    expect_shapes(q1=(q[0], "R"), q2=(q[1], "R"), v1=(v[0], "R"), v2=(v[1], "R"))
    return q[0].clip(max=q[1]) - v[0].clip(max=v[1])
