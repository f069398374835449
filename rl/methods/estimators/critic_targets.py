"""ArCHer (arXiv:2402.19446): an off-policy critic of whole replies teaches a policy of tokens.

Legend: R replies (turns).
"""

from __future__ import annotations

import numpy as np

from rl.methods.estimators.shapes import expect_shapes
from rl.methods.estimators.statistics import Bools, Floats, Ints


def action_target(rewards: Floats, done: Bools, next_values: Floats, *, gamma: float = 0.95) -> Floats:
    """Regression target (R,) of `Q(o, a)`, the value of reply `a` to dialogue `o`: `r + gamma * V(o')`.

    `rewards` (R,) are `r`, `next_values` (R,) the target network's `V` of the dialogue that the next reply answers. The
    second term is left out where the episode is `done` (R,). An episode that a limit cut short is not done: the value
    of what would have followed still counts.
    """
    expect_shapes(rewards=(rewards, "R"), done=(done, "R"), next_values=(next_values, "R"))
    return rewards + gamma * (1.0 - done) * next_values


def advantage(q: tuple[Floats, Floats], v: tuple[Floats, Floats], *, greater: bool = False) -> Floats:
    """Advantage (R,) of sampled replies: `min(Q_1, Q_2) - min(V_1, V_2)`, the lesser of twin estimates of each.

    `greater` takes the larger of each, as Digi-Q's release does.

    `q` holds two estimates (R,) of the value of each reply, `v` two (R,) of the value of the dialogue before it.
    """
    expect_shapes(q1=(q[0], "R"), q2=(q[1], "R"), v1=(v[0], "R"), v2=(v[1], "R"))
    return np.maximum(*q) - np.maximum(*v) if greater else np.minimum(*q) - np.minimum(*v)


def best_replies(advantages: Floats, valid: Bools, state: Ints, *, threshold: float) -> Bools:
    """Digi-Q's extraction: the reply with the largest advantage of each state, if that is above `threshold`.

    A mask (R,) over replies to states with the labels `state` (R,). The advantage of a reply that is not `valid` (R,)
    counts as 0; of equal ones the first is taken.
    """
    expect_shapes(advantages=(advantages, "R"), valid=(valid, "R"), state=(state, "R"))
    values, mask = np.where(valid, advantages, 0.0), np.zeros(len(advantages), dtype=np.bool_)
    for label in np.unique(state):
        rows = np.flatnonzero(state == label)
        best = rows[np.argmax(values[rows])]
        mask[best] = min(max(values[best], 0.0), 1.0) > threshold
    return mask


def improved_policy(values: Floats, valid: Bools, state: Ints, *, keep: float, temperature: float) -> Floats:
    """PA-RL's targets: weights (R,) of replies, a softmax over the best of each state, times how many replies it has.

    Of the `valid` (R,) replies to a state (labels `state`, (R,)), those with the largest `values` (R,) are candidates,
    a share `keep` of the state's replies, rounded up; the first of equal ones. Others have weight 0. The weights of a
    state have the mean 1; a state with a single reply has nothing to choose from, and weight 0, as one without a valid
    reply has.
    """
    expect_shapes(values=(values, "R"), valid=(valid, "R"), state=(state, "R"))
    weights = np.zeros(len(values))
    for label in np.unique(state):
        rows = np.flatnonzero(state == label)
        candidates = rows[valid[rows]]
        best = candidates[np.argsort(-values[candidates], kind="stable")[: int(np.ceil(keep * len(rows) - 1e-9))]]
        if len(rows) > 1 and len(best):
            odds = np.exp((values[best] - values[best].max()) / temperature)
            weights[best] = len(rows) * odds / odds.sum()
    return weights
