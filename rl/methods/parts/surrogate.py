"""The loss of a ratio and an advantage, to be minimised: `(log_ratio, tokens) -> (B, T)`.

B rows, T token positions; `log_ratio` is (B, T) or broadcasts to it. Ratios are exponentials of log-ratios held within
+-20, beyond which they lose their gradient. The numbers of tokens that were not sampled are never read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rl.methods.estimators import segments
from rl.methods.options import AboveOne, NonNegative, Positive
from rl.methods.parts import MISMATCH, needs, traits

if TYPE_CHECKING:
    from torch import Tensor

    from rl.methods.inputs import Tokens


def linear(log_ratio: Tensor, tokens: Tokens) -> Tensor:
    """`-r A`: the policy gradient, with an importance weight for the policy that sampled.

    The loss is (B, T), with `r = exp(log_ratio)` and `A` the advantage of each token.
    """
    return -_ratio(log_ratio) * tokens.adv


def clip(log_ratio: Tensor, tokens: Tokens, *, low: NonNegative = 0.2, high: NonNegative = 0.2) -> Tensor:
    """PPO (arXiv:1707.06347, eq. 7): `-min(r A, c A)`, where `c` is the ratio held within `1 - low` and `1 + high`.

    The loss is (B, T), with `r = exp(log_ratio)` and `A` the advantage of each token. There is no gradient once the
    ratio has left the interval in the direction that the advantage pushes.
    """
    ratio = _ratio(log_ratio)
    return (-ratio * tokens.adv).maximum(-ratio.clamp(1 - low, 1 + high) * tokens.adv)


def dual_clip(
    log_ratio: Tensor, tokens: Tokens, *, low: NonNegative = 0.2, high: NonNegative = 0.2, cap: AboveOne = 3.0
) -> Tensor:
    """Dual-clip PPO (arXiv:1912.09729): `clip`, and no loss above `-cap A` for a negative advantage.

    The loss is (B, T), with `A` the advantage of each token. Without the cap, a token that was unlikely when sampled
    and is likely now can dominate the update. Raises `ValueError` unless `cap` exceeds 1.
    """
    if cap <= 1:
        raise ValueError(f"dual_clip: cap={cap} must exceed 1")
    loss = clip(log_ratio, tokens, low=low, high=high)
    return loss.where(tokens.adv >= 0, loss.minimum(-cap * tokens.adv))


def cispo(log_ratio: Tensor, tokens: Tokens, *, low: NonNegative = 1.0, high: NonNegative = 4.0) -> Tensor:
    """CISPO (arXiv:2506.13585): `-c A logp`, `c` as in `clip` but detached: no token ever loses its gradient.

    The loss is (B, T); `c` is the ratio `exp(log_ratio)` held within `1 - low` and `1 + high`, `A` the advantage of
    each token. `low=1` sets no lower bound. `high` is an offset: the default caps the weight at 5.
    """
    weight = _ratio(log_ratio.detach()).clamp(1 - low, 1 + high)
    return -weight * tokens.adv * tokens.logp


def nll(log_ratio: Tensor, tokens: Tokens) -> Tensor:
    """`-logp` of each token (B, T): imitates every trajectory of the update, whatever its advantage."""
    return -tokens.logp


@needs("draws")
def one_token(log_ratio: Tensor, tokens: Tokens, *, beta: float = -0.1) -> Tensor:
    """One-Token Rollout (2025): `-(hits logp + beta (drawn - hits logp))`: each position is an episode of one token.

    Of the tokens that the policy draws at a recorded one's position (`score=draws`), those that are the recorded one
    have reward 1 and the others `beta`; the loss is (B, T). A token that the policy never draws pushes nothing up, and
    one that it always draws is imitated as by `nll`.
    """
    right = tokens.stream("hits").detach() * tokens.logp
    return -(right + beta * (tokens.stream("drawn") - right))


def log_likelihood(log_ratio: Tensor, tokens: Tokens) -> Tensor:
    """`-A logp` (B, T): the policy gradient without any importance weight; `select` parts may give one."""
    return -tokens.adv * tokens.logp


def adaptive_clip(log_ratio: Tensor, tokens: Tokens, *, cap: AboveOne = float("inf")) -> Tensor:
    """`dual_clip` whose interval comes from a step part: the ratio is held within the streams `low` and `high`.

    These are bounds of the ratio, one pair per token (B, T), and not distances from 1. The loss is (B, T).
    """
    ratio = _ratio(log_ratio)
    near = ratio.clamp(tokens.stream("low"), tokens.stream("high"))
    loss = (-ratio * tokens.adv).maximum(-near * tokens.adv)
    return loss.where(tokens.adv >= 0, loss.minimum(-cap * tokens.adv))


@traits(excludes={MISMATCH: "the gate already weighs by how far the policies are apart"})
def soft_gate(log_ratio: Tensor, tokens: Tokens, *, positive: Positive = 1.0, negative: Positive = 1.05) -> Tensor:
    """SAPO (arXiv:2511.20347): `-A sigmoid(tau (r - 1)) 4 / tau`, a gate in the place of the clip.

    The loss is (B, T), `tau` is `positive` where `A > 0` and `negative` elsewhere. At `r = 1` the slope is `-A`; it
    falls off to both sides, the faster the larger `tau`.
    """
    tau = tokens.adv.new_tensor(negative).where(tokens.adv <= 0, positive)
    return -tokens.adv * (tau * (_ratio(log_ratio) - 1)).sigmoid() * 4 / tau


def geometric_clip(log_ratio: Tensor, tokens: Tokens, *, low: NonNegative = 0.4, high: NonNegative = 0.4) -> Tensor:
    """GMPO (arXiv:2507.20673): `-A exp(m)`, `m` the mean of a trajectory's log-ratios, each clipped before.

    A log-ratio is held within `-low` and `high` on the side to which the advantage pushes. The loss (B, T) is the same
    number on each token of a trajectory with one advantage; with `reduce=sequence_mean` the sum counts it once. Raises
    `PartError` for a trajectory with several advantages, for which the method has no meaning.
    """
    sign = tokens.adv.sign()
    near = log_ratio.clamp(-low, high)
    log_ratio = sign * (sign * log_ratio).minimum(sign * near)
    segments.expect_one_value(tokens.adv, tokens.mask, tokens.labels, "surrogate geometric_clip", "advantage")
    mean = segments.mean_over_trajectory(log_ratio, tokens.mask, tokens.labels)
    return -tokens.adv * _ratio(mean)


@needs("reward")
def tapered(log_ratio: Tensor, tokens: Tokens, *, negative: NonNegative = 1.0, cap: Positive = 1.0) -> Tensor:
    """TOPR (arXiv:2503.14286): `-A logp` where the reward is above 0, else `-min(r, cap) A logp` by `negative`.

    The loss is (B, T), the weight is detached. Rewards are those of trajectories after shaping (stream `reward`), not
    advantages: what succeeded is imitated at full weight however unlikely it has become.
    """
    weight = _ratio(log_ratio.detach()).clamp(max=cap) * negative
    return -weight.masked_fill(tokens.stream("reward") > 0, 1.0) * tokens.adv * tokens.logp


@needs("teacher")
def dual_path(log_ratio: Tensor, tokens: Tokens) -> Tensor:
    """SCOPE's two paths (2026): `-r A` where `A > 0`, else `r |A| (logp - teacher)`, whose last factor is detached.

    The loss is (B, T), with `r = exp(log_ratio)`. `A` is how much a trajectory counts, positive for a success, which is
    imitated, and negative for a failure, which learns from the teacher's log-probabilities (stream `teacher`) what it
    should have said less of (`credit=calibrated_paths`).
    """
    gap = tokens.logp.detach() - tokens.stream("teacher")
    return -_ratio(log_ratio) * tokens.adv * gap.masked_fill(tokens.adv > 0, 1.0)


def gamma_weight(
    log_ratio: Tensor,
    tokens: Tokens,
    *,
    k: Positive = 2.0,
    rate: Positive = 3.0,
    k_negative: Positive = 3.0,
    rate_negative: Positive = 2.0,
) -> Tensor:
    """VESPO (arXiv:2602.10693): `-phi A logp` with `phi = exp(rate) w^k exp(-rate w)`, `w` the ratio, detached.

    The loss is (B, T). `phi` is 1 at `w = 1` and falls off to both sides; negative advantages have `k_negative` and
    `rate_negative`. Meant for the ratio of a whole trajectory (`ratio=sequence_product`).
    """
    log_weight = log_ratio.detach().nan_to_num(nan=-18.42, neginf=-18.42).clamp(-18.42, 20.0)  # at least 1e-8
    positive = tokens.adv >= 0
    power = log_weight.new_full((), k_negative).where(~positive, k)
    decay = log_weight.new_full((), rate_negative).where(~positive, rate)
    phi = (decay + power * log_weight - decay * log_weight.exp()).exp()
    return -phi * tokens.adv * tokens.logp


def _ratio(log_ratio: Tensor) -> Tensor:
    return log_ratio.clamp(-20.0, 20.0).exp()
