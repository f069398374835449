"""Weights per token: `(tokens) -> (B, T)`, detached; their product multiplies the surrogate, not the penalties.

B rows, T token positions; 0 where not sampled. A token of weight 0 stays in the loss's denominator, so that leaving
some out never amplifies the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from rl.methods.estimators import segments
from rl.methods.options import Natural, NonNegative, Positive
from rl.methods.parts import MISMATCH, needs, traits

if TYPE_CHECKING:
    from torch import Tensor

    from rl.methods.inputs import Tokens


def every_token(tokens: Tokens) -> Tensor:
    """Weight 1 on each sampled token, 0 elsewhere (B, T)."""
    return tokens.mask.to(tokens.logp.dtype)


def truncated_is(
    tokens: Tokens,
    *,
    cap: Positive = 2.0,
    floor: NonNegative = 0.0,
    level: Literal["token", "turn", "sequence"] = "token",
) -> Tensor:
    """Truncated importance weights `min(r, cap)` of current against sampling policy, at least `floor`.

    `r` is the ratio of the two probabilities of each token; the weights (B, T) are 0 where not sampled.
    `level="turn"` or `"sequence"` takes the product of the ratios over the turn's or the trajectory's sampled tokens.
    Meant for surrogates without a ratio of their own (`ratio=on_policy`): beside `ratio=token` the same correction
    would count twice.
    """
    log_ratio = _sum_over(level, (tokens.logp.detach() - tokens.sampler_logp) * tokens.mask, tokens)
    return log_ratio.clamp(-20.0, 20.0).exp().clamp(floor, cap) * tokens.mask


def masked_is(tokens: Tokens, *, low: NonNegative = 0.5, high: Positive = 5.0) -> Tensor:
    """IcePop: the importance weight `r` of current against sampling policy where `low <= r <= high`, else 0.

    `r` is the ratio of the two probabilities of each token; the weights (B, T) are 0 where not sampled.
    """
    ratio = (tokens.logp.detach() - tokens.sampler_logp).clamp(-20.0, 20.0).exp()
    return ratio * (tokens.mask & (ratio >= low) & (ratio <= high))


@traits(MISMATCH)
@needs("proximal")
def mismatch_tis(
    tokens: Tokens,
    *,
    cap: Positive = 2.0,
    floor: NonNegative = 0.0,
    level: Literal["token", "turn", "sequence"] = "token",
    over: Literal["mean", "sum"] = "sum",
) -> Tensor:
    """Truncated importance weights `min(w, cap)` of trainer against sampler before the update, at least `floor`.

    `w` is the ratio of the probabilities that both computed for the same token: the part of the importance weight that
    ratios against the trainer's own log-probabilities leave out (decoupled PPO, arXiv:2110.00641, eq. 2; AReaL,
    arXiv:2505.24298, eq. 5). `level="turn"` or `"sequence"` takes the product over the turn's or the trajectory's
    sampled tokens, with `over="mean"` their geometric mean. Weights (B, T), 0 where not sampled.
    """
    log_ratio = _reduce_over(level, over, _mismatch(tokens), tokens)
    return log_ratio.clamp(-20.0, 20.0).exp().clamp(floor, cap) * tokens.mask


@traits(expects={"ratio": ("interpolated",)})
@needs("staleness")
def interpolated_tis(
    tokens: Tokens, *, cap: Positive = 5.0, floor: NonNegative = 0.0, kind: Literal["log", "linear"] = "log"
) -> Tensor:
    """AReaL (arXiv:2505.24298): truncated importance weights `min(w, cap)` of `ratio=interpolated` against the sampler.

    `w` is the ratio of the guessed policy before the update and the sampler, at least `floor`; `kind` is that of the
    ratio. Weights (B, T), 0 where not sampled.
    """
    share = tokens.stream("staleness")
    guess = segments.between(tokens.sampler_logp, tokens.logp.detach(), share, kind)
    return (guess - tokens.sampler_logp).clamp(-20.0, 20.0).exp().clamp(floor, cap) * tokens.mask


@needs("staleness")
def recent(tokens: Tokens, *, updates: Natural = 4) -> Tensor:
    """Leave out tokens whose sampler was more than `updates` updates behind the weights that are trained.

    A token keeps its share of the loss, so masking old tokens does not make the others weigh more. Weights (B, T), 0
    where not sampled.
    """
    most = updates / (updates + 1)  # `staleness` is n / (n + 1) for a token that is n updates old
    return (tokens.stream("staleness") <= most + 1e-6) * tokens.mask


@traits(MISMATCH)
@needs("proximal")
def mismatch_icepop(tokens: Tokens, *, low: NonNegative = 0.5, high: Positive = 5.0) -> Tensor:
    """IcePop: the importance weight `w` of trainer against sampler where `low <= w <= high`, else 0.

    `w` is as in `mismatch_tis`, token by token. Weights (B, T), 0 where not sampled.
    """
    ratio = _mismatch(tokens).clamp(-20.0, 20.0).exp()
    return ratio * (tokens.mask & (ratio >= low) & (ratio <= high))


@needs("proximal")
def mismatch_mask(
    tokens: Tokens,
    *,
    measure: Literal["ratio", "k2", "k3", "change"] = "ratio",
    level: Literal["token", "turn", "sequence"] = "token",
    over: Literal["mean", "sum", "max"] = "mean",
    low: NonNegative = 0.5,
    high: Positive = 2.0,
) -> Tensor:
    """Weight 1 where trainer and sampler agree before the update, 0 elsewhere (B, T).

    With `d` the trainer's log-probability of a token minus the sampler's, `measure="ratio"` keeps what has
    `low <= exp(d) <= high`; `"k2"`, `d^2 / 2`, `"k3"`, `exp(d) - 1 - d`, and `"change"`, the distance of the two
    probabilities, keep what is at most `high`. At the level
    of a turn or a sequence (a trajectory) all its tokens are kept or left out together: `over="mean"` compares the
    mean of `d` (a geometric mean of ratios) or of the measure, `"sum"` its sum, and `"max"` asks it of every token.
    """
    difference = _mismatch(tokens).clamp(-20.0, 20.0)
    if measure == "k2":
        difference = difference.square() / 2
    elif measure == "k3":
        difference = difference.exp() - 1 - difference
    elif measure == "change":
        difference = (tokens.old.exp() - tokens.sampler_logp.exp()).abs()

    def agrees(x: Tensor) -> Tensor:
        return (x.exp() >= low) & (x.exp() <= high) if measure == "ratio" else x <= high

    if level == "token":
        mask = agrees(difference)
    elif over == "max":
        mask = _sum_over(level, (~agrees(difference) & tokens.mask).to(difference.dtype), tokens) == 0
    else:
        mask = agrees(_reduce_over(level, over, difference * tokens.mask, tokens))
    return (mask & tokens.mask).to(tokens.logp.dtype)


def off_policy_sequences(tokens: Tokens, *, delta: float = 1e-4) -> Tensor:
    """OPSM (DeepSeek-V3.2, arXiv:2512.02556): weight 0 on failed trajectories that have become unlikely (B, T).

    A trajectory with a negative advantage is left out where its sampled tokens have lost more than `delta` nats on
    average since they were sampled; all others have weight 1. Advantages are the means over a trajectory's tokens.
    """
    loss = segments.mean_over_trajectory(tokens.sampler_logp - tokens.logp.detach(), tokens.mask, tokens.labels)
    advantage = segments.mean_over_trajectory(tokens.adv, tokens.mask, tokens.labels)
    return (tokens.mask & ~((advantage < 0) & (loss > delta))).to(tokens.logp.dtype)


def divergence_mask(
    tokens: Tokens,
    *,
    measure: Literal["tv", "kl"] = "tv",
    low: NonNegative = 0.2,
    high: NonNegative = 0.2,
    side: Literal["outward", "both"] = "outward",
) -> Tensor:
    """DPPO (arXiv:2602.04879): weight 0 on tokens whose probability has moved too far, instead of a clip (B, T).

    `measure="tv"` is the change of the token's probability since it was sampled, `"kl"` the divergence of the pair
    "this token or another"; both bound the divergence of the distributions. A token is left out beyond `high` where its
    advantage is positive and it has become likelier, beyond `low` where negative and less likely; `side="both"` leaves
    it out whatever the sign of its advantage (prime-rl's IPO).
    """
    before, now = tokens.sampler_logp.exp(), tokens.logp.detach().exp()
    change = now - before
    if measure == "kl":
        floor = 1e-8
        other_before, other_now = (1 - before).clamp(min=floor), (1 - now).clamp(min=floor)
        divergence = before * (before.clamp(min=floor) / now.clamp(min=floor)).log()
        divergence = divergence + other_before * (other_before / other_now).log()
    else:
        divergence = change.abs()
    above, below = (change > 0) & (divergence > high), (change < 0) & (divergence > low)
    if side == "outward":
        above, below = above & (tokens.adv > 0), below & (tokens.adv < 0)
    return (tokens.mask & ~above & ~below).to(tokens.logp.dtype)


def _mismatch(tokens: Tokens) -> Tensor:
    """The trainer's log-probability before the update minus the sampler's record; 0 where not sampled (B, T)."""
    return (tokens.old - tokens.sampler_logp) * tokens.mask


def _reduce_over(level: str, over: str, x: Tensor, tokens: Tokens) -> Tensor:
    """`_sum_over`, divided by the number of sampled tokens if `over` is "mean"; of single tokens `x` itself."""
    total = _sum_over(level, x, tokens)
    if over != "mean" or level == "token":
        return total
    return total / _sum_over(level, tokens.mask.to(x.dtype), tokens).clamp(min=1)


def _sum_over(level: str, x: Tensor, tokens: Tokens) -> Tensor:
    """Sums of `x` (B, T), 0 where not sampled, over the tokens of each trajectory (B, 1) or turn; or `x` itself."""
    if level == "sequence":
        return segments.row_sum(x, tokens.labels.trajectory)
    return segments.turn_sum(x, tokens.labels) if level == "turn" else x
