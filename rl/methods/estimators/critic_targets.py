"""ArCHer (arXiv:2402.19446): an off-policy critic of whole replies teaches a policy of tokens.

Legend: R replies (turns).
"""

from __future__ import annotations

from rl.methods.estimators.shapes import expect_shapes
from rl.methods.estimators.statistics import Bools, Floats


def action_target(rewards: Floats, done: Bools, next_values: Floats, *, gamma: float = 0.95) -> Floats:
    """Regression target (R,) of `Q(o, a)`, the value of reply `a` to dialogue `o`: `r + gamma * V(o')`.

    `rewards` (R,) are `r`, `next_values` (R,) the target network's `V` of the dialogue that the next reply answers. The
    second term is left out where the episode is `done` (R,). An episode that a limit cut short is not done: the value
    of what would have followed still counts.
    """
    expect_shapes(rewards=(rewards, "R"), done=(done, "R"), next_values=(next_values, "R"))
    return rewards + gamma * (1.0 - done) * next_values


def advantage(q: tuple[Floats, Floats], v: tuple[Floats, Floats]) -> Floats:
    """Advantage (R,) of sampled replies: `min(Q_1, Q_2) - min(V_1, V_2)`, the lesser of twin estimates of each.

    `q` holds two estimates (R,) of the value of each reply, `v` two (R,) of the value of the dialogue before it.
    """
    expect_shapes(q1=(q[0], "R"), q2=(q[1], "R"), v1=(v[0], "R"), v2=(v[1], "R"))
    return q[0].clip(max=q[1]) - v[0].clip(max=v[1])
