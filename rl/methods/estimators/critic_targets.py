"""ArCHer (arXiv:2402.19446): an off-policy critic of whole replies, a policy of tokens. Arrays run over n replies."""

from __future__ import annotations

from rl.methods.estimators.statistics import Bools, Floats


def action_target(rewards: Floats, done: Bools, next_value: Floats, *, gamma: float = 0.95) -> Floats:
    """What `Q(o, a)` should be: `r + gamma * V(o')`, with `V` of the target network, and 0 where the episode is done.

    Cutting an episode short is not `done`: what came after has a value.
    """
    return rewards + gamma * (1.0 - done) * next_value


def advantage(q: tuple[Floats, Floats], v: tuple[Floats, Floats]) -> Floats:
    """`min(Q_1, Q_2) - min(V_1, V_2)` of a reply drawn from the present policy: of twin estimates, the lesser."""
    return q[0].clip(max=q[1]) - v[0].clip(max=v[1])


def actor_loss(advantages: Floats, logprobs: Floats, mask: Bools) -> float:
    """Minus the mean over replies of advantage times the reply's log-probability; `logprobs` and `mask` are (n, T)."""
    return -float((advantages * (logprobs * mask).sum(1)).mean())
