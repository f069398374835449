"""What is computed from all tokens of an optimiser step, before its micro-batches: `(tokens) -> {name: (B, T)}`.

B rows of the step, T token positions. A part sees the tokens of the whole step without gradients and returns named
streams, which loss parts read as `tokens.streams`; what it must not do is change the tokens. Two names have a meaning
of their own: `weight` multiplies the surrogate as `select` does, and `rate`, a single number, multiplies the learning
rate of the step. A part that reads `tokens.logp` or `tokens.entropy` says `@needs("logp")`, which costs one forward
pass more; without, `tokens.logp` is `tokens.old`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from rl.methods.estimators import segments, step_wide
from rl.methods.options import Count, NonNegative, Positive, Share
from rl.methods.parts import MISMATCH, needs, traits

if TYPE_CHECKING:
    from torch import Tensor

    from rl.methods.inputs import Tokens


@needs("logp")
def second_moment(
    tokens: Tokens, *, budget: NonNegative = 0.04, among: Literal["harmful", "all"] = "harmful"
) -> Mapping[str, Tensor]:
    """M2PO (arXiv:2510.01161): weight 0 on the largest log-ratios, so that the mean square of the others is < `budget`.

    Harmful tokens are those whose ratio has moved to where their advantage pushes; the others are kept and not counted.
    At least one token is kept.
    """
    log_ratio = tokens.logp - tokens.old
    candidates = tokens.mask if among == "all" else step_wide.is_harmful(log_ratio, tokens.adv, tokens.mask)
    left_out = candidates & ~step_wide.below_second_moment(log_ratio, candidates, budget)
    return {"weight": (tokens.mask & ~left_out).to(tokens.old.dtype)}


@traits(MISMATCH)
@needs("proximal")
def mismatch_second_moment(tokens: Tokens, *, budget: NonNegative = 0.04) -> Mapping[str, Tensor]:
    """M2PO's mask as AReaL has it: the log-ratio is that of the trainer before the update against the sampler."""
    mask = step_wide.below_second_moment(tokens.old - tokens.sampler_logp, tokens.mask, budget)
    return {"weight": mask.to(tokens.old.dtype)}


@needs("logp")
def second_moment_clip(
    tokens: Tokens, *, budget: NonNegative = 0.04, low: NonNegative = 0.3, high: NonNegative = 0.5
) -> Mapping[str, Tensor]:
    """M2PO as its authors released it: `low` and `high` for `surrogate=adaptive_clip`, as wide as the budget allows.

    The largest |log-ratio| of harmful tokens is capped so that their mean square is at most `budget`; the cap is the
    next smaller one among theirs. The clip is `exp(-cap)` to `exp(cap)`, but never narrower than `1 - low` and
    `1 + high`. Without a harmful token, and within the budget, nothing is clipped.
    """
    log_ratio = tokens.logp - tokens.old
    harmful = step_wide.is_harmful(log_ratio, tokens.adv, tokens.mask)
    cap = step_wide.second_moment_cap(log_ratio[harmful], budget)
    bound = log_ratio.new_tensor(cap)
    return _bounds(tokens, (1 - (1 - (-bound).exp()).clamp(min=low)), 1 + (bound.exp() - 1).clamp(min=high))


@needs("logp")
def balanced_clip(
    tokens: Tokens,
    *,
    target: Positive = 1.0,
    low: Share = 0.6,
    low_most: Share = 0.9,
    high: Positive = 1.2,
    high_most: Positive = 3.0,
    stride: Positive = 0.05,
    measure: Literal["surviving", "released"] = "surviving",
) -> Mapping[str, Tensor]:
    """BAPO (arXiv:2510.18927): `low` and `high` for `surrogate=adaptive_clip` that give positive tokens their share.

    While the contribution of positive advantages is less than `target` times that of negative ones, the lower bound
    rises from `low` to `low_most`, then the upper one from `high` to `high_most`, by `stride`. A token contributes `r
    |A|` while its gradient survives the clip; with `measure="released"`, as the authors' code has it, a clipped token
    contributes its bound, so that raising the lower one only adds to the negative side.
    """
    bounds = step_wide.balanced_bounds(
        (tokens.logp - tokens.old).exp()[tokens.mask],
        tokens.adv[tokens.mask],
        target=target,
        low=(low, low_most),
        high=(high, high_most),
        stride=stride,
        surviving=measure == "surviving",
    )
    return _bounds(tokens, *(tokens.old.new_tensor(bound) for bound in bounds))


@needs("logp")
def covariance(tokens: Tokens, *, share: Share = 2e-4) -> Mapping[str, Tensor]:
    """KL-Cov (arXiv:2505.22617): mark the `share` of tokens with the largest covariance, at least one (`covariance`).

    The covariance of a token is `(A - mean A)(logp - mean logp)` over the sampled tokens of the step: what is likely
    and rewarded lowers the entropy most. `penalty=covariance` reads the marks.
    """
    value = step_wide.covariance(tokens.adv, tokens.logp, tokens.mask)
    count = max(1, int(share * int(tokens.mask.sum())))
    return {"covariance": step_wide.largest(value, tokens.mask, count).to(tokens.old.dtype)}


@needs("logp")
def covariance_clip(
    tokens: Tokens, *, share: Share = 2e-4, low: float = 1.0, high: float = 5.0, clip: NonNegative = 0.2
) -> Mapping[str, Tensor]:
    """Clip-Cov (arXiv:2505.22617): weight 0 on some tokens whose covariance is within `low` and `high`.

    As many as the `share` of all tokens, at least one where there are any, spread evenly over those within the bounds.
    Tokens whose ratio is beyond `clip` from 1 on the side of their advantage are not counted among these, because the
    surrogate's clip stops them anyway: `clip` is to be its bound.
    """
    value = step_wide.covariance(tokens.adv, tokens.logp, tokens.mask)
    beyond = ((tokens.logp - tokens.old).exp() - 1) * tokens.adv.sign() > clip
    within = tokens.mask & (value > low) & (value < high) & ~beyond
    left_out = step_wide.spread_evenly(within, max(1, int(share * int(tokens.mask.sum()))))
    return {"weight": (tokens.mask & ~left_out).to(tokens.old.dtype)}


@traits(MISMATCH)
@needs("proximal")
def normalised_tis(
    tokens: Tokens, *, cap: Positive = 2.0, level: Literal["token", "sequence"] = "token"
) -> Mapping[str, Tensor]:
    """`select=mismatch_tis`, divided by its mean over the step's tokens, or over its trajectories with tokens."""
    log_ratio = (tokens.old - tokens.sampler_logp) * tokens.mask
    if level == "sequence":
        log_ratio = segments.row_sum(log_ratio, tokens.labels.trajectory).expand_as(log_ratio)
    weight = log_ratio.clamp(-20.0, 20.0).exp().clamp(max=cap) * tokens.mask
    count = tokens.mask.to(weight.dtype)
    if level == "sequence":
        count = count / segments.row_sum(count, tokens.labels.trajectory).clamp(min=1)
    mean = (weight * (count if level == "sequence" else 1.0)).sum() / count.sum().clamp(min=1)
    return {"weight": weight / mean.clamp(min=1e-8)}


@needs("logp")
def top_tokens(tokens: Tokens, *, share: Share = 0.4) -> Mapping[str, Tensor]:
    """D3S (arXiv:2509.22115): weight on the `share` of tokens with the largest `|A| * entropy`, with ties; else 0.

    The weight is the number of tokens with an advantage over the number kept, so that the step concentrates on them.
    """
    candidates = tokens.mask & (tokens.adv != 0)
    value = tokens.adv.abs() * tokens.entropy
    top = step_wide.at_least(value, candidates, share)
    scale = candidates.sum() / top.sum().clamp(min=1)
    return {"weight": top * scale.to(tokens.old.dtype)}


@needs("logp")
def hybrid_shaping(
    tokens: Tokens,
    *,
    alpha: NonNegative = 1.0,
    beta: NonNegative = 1.0,
    bound: NonNegative = 2.0,
    factor: Share = 0.1,
    tail: Count = 16,
    least: NonNegative = 0.05,
    most: NonNegative = 0.2,
    kappa: NonNegative = 4.0,
    full: bool = False,
) -> Mapping[str, Tensor]:
    """ECHO: a `weight` that grows with uncertainty, and a clip (`low`, `high`) that is tighter where the end is sure.

    With `z` standardised over the step's sampled tokens and `p` the probability of the sampled token, the weight is
    `1 + factor * S`, at least 0, where `S = alpha z(entropy) + beta z(1 - p)` is held within `bound` either way. A
    trajectory's clip, for `surrogate=adaptive_clip`, is `1 - e` to `1 + e`, with
    `e = least + (most - least) sigmoid(kappa (1 - c))` and `c` the mean of `p` over its last `tail` tokens; so `e`
    never falls below the middle of its range. `full` takes `e = most - (most - least) c`, which does.
    """
    confidence = tokens.logp.detach().exp()
    score = alpha * step_wide.standardised(tokens.entropy.detach(), tokens.mask)
    score = score + beta * step_wide.standardised(1 - confidence, tokens.mask)
    sure = segments.mean_over_tail(confidence, tokens.mask, tokens.labels, tail)
    width = most - (most - least) * sure if full else least + (most - least) * (kappa * (1 - sure)).sigmoid()
    weight = (1 + factor * score.clamp(-bound, bound)).clamp(min=0) * tokens.mask
    return {"weight": weight, **_bounds(tokens, 1 - width, 1 + width)}


@needs("proximal")
def effective_size(
    tokens: Tokens, *, base: Positive = 1.0, rule: Literal["sqrt", "linear"] = "sqrt"
) -> Mapping[str, Tensor]:
    """VCPO (arXiv:2602.17616): the learning rate falls with the effective number of trajectories in the step (`rate`).

    With `w` the ratio of trainer against sampler of a whole trajectory, uncapped, the effective share of the B
    trajectories is `(sum w)^2 / (B sum w^2)`. The rate is that share over `base`, at most 1, or its square root.
    """
    share = step_wide.effective_share((tokens.old - tokens.sampler_logp) * tokens.mask, tokens.labels)
    factor = (share / base).clamp(max=1.0)
    return {"rate": factor.sqrt() if rule == "sqrt" else factor}


def _bounds(tokens: Tokens, low: Tensor, high: Tensor) -> Mapping[str, Tensor]:
    return {"low": low.expand_as(tokens.old), "high": high.expand_as(tokens.old)}
