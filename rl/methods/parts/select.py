"""A weight per token: `(tokens) -> (B, T)`, detached; it multiplies the surrogate, not the penalties.

B rows, T token positions; 0 where not sampled. A token of weight 0 stays in the loss's denominator, so that leaving
some out never amplifies the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from rl.methods.estimators import segments
from rl.methods.options import NonNegative, Positive

if TYPE_CHECKING:
    from torch import Tensor

    from rl.methods.inputs import Tokens


def every_token(tokens: Tokens) -> Tensor:
    """Weight 1 on each sampled token, 0 elsewhere (B, T)."""
    return tokens.mask.to(tokens.logp.dtype)


def truncated_is(
    tokens: Tokens, *, cap: Positive = 2.0, floor: NonNegative = 0.0, level: Literal["token", "sequence"] = "token"
) -> Tensor:
    """Truncated importance weights `min(r, cap)` of current against sampling policy, at least `floor`.

    `r` is the ratio of the two probabilities of each token; the weights (B, T) are 0 where not sampled.
    `level="sequence"` takes the product of the ratios over the trajectory's sampled tokens. Meant for surrogates
    without a ratio of their own (`ratio=on_policy`): beside `ratio=token` the same correction would count twice.
    """
    log_ratio = (tokens.logp.detach() - tokens.old) * tokens.mask
    if level == "sequence":
        log_ratio = segments.row_sum(log_ratio, tokens.labels.trajectory)
    return log_ratio.clamp(-20.0, 20.0).exp().clamp(floor, cap) * tokens.mask


def masked_is(tokens: Tokens, *, low: NonNegative = 0.5, high: Positive = 5.0) -> Tensor:
    """IcePop: the importance weight `r` of current against sampling policy where `low <= r <= high`, else 0.

    `r` is the ratio of the two probabilities of each token; the weights (B, T) are 0 where not sampled.
    """
    ratio = (tokens.logp.detach() - tokens.old).clamp(-20.0, 20.0).exp()
    return ratio * (tokens.mask & (ratio >= low) & (ratio <= high))
