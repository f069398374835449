"""The loss of a ratio and an advantage, to be minimised: `(log_ratio, tokens) -> (B, T)`.

B rows, T token positions; `log_ratio` is (B, T) or broadcasts to it. Ratios are exponentials of log-ratios held within
+-20, beyond which they lose their gradient. The numbers of tokens that were not sampled are never read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rl.methods.options import AboveOne, NonNegative

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


def _ratio(log_ratio: Tensor) -> Tensor:
    return log_ratio.clamp(-20.0, 20.0).exp()
