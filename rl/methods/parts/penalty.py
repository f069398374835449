"""Losses added to the policy's: `(tokens) -> (B, T)`, one number per token, `coef` its weight in the sum.

B rows, T token positions; the numbers of tokens that were not sampled are never read. The `kl_*` parts estimate
KL(policy || reference) from the sampled tokens. As a loss, `kl_k2` has the right gradient on policy; `kl_k3` is
unbiased in value but not in gradient; the expected gradient of `kl_k1` is 0 on policy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from rl.methods.options import NonNegative, PartError, Share
from rl.methods.parts import needs

if TYPE_CHECKING:
    from torch import Tensor

    from rl.methods.inputs import Tokens


@needs("ref")
def kl_k1(tokens: Tokens, *, coef: NonNegative = 0.001) -> Tensor:
    """`coef * d` of each token (B, T), with `d = logp - ref`.

    `logp` and `ref` (B, T) are the log-probabilities of the sampled tokens under the policy and under the reference.
    Raises `PartError` without a reference's log-probabilities.
    """
    return coef * _log_ratio_to_reference(tokens)


@needs("ref")
def kl_abs(tokens: Tokens, *, coef: NonNegative = 0.001) -> Tensor:
    """`coef * |d|` of each token (B, T), with `d = logp - ref`.

    `logp` and `ref` (B, T) are the log-probabilities of the sampled tokens under the policy and under the reference.
    Raises `PartError` without a reference's log-probabilities.
    """
    return coef * _log_ratio_to_reference(tokens).abs()


@needs("ref")
def kl_k2(tokens: Tokens, *, coef: NonNegative = 0.001) -> Tensor:
    """`coef * d^2 / 2` of each token (B, T), with `d = logp - ref`.

    `logp` and `ref` (B, T) are the log-probabilities of the sampled tokens under the policy and under the reference.
    Raises `PartError` without a reference's log-probabilities.
    """
    return coef * 0.5 * _log_ratio_to_reference(tokens).square()


@needs("ref")
def kl_k3(tokens: Tokens, *, coef: NonNegative = 0.001, straight_through: bool = False) -> Tensor:
    """`coef * (exp(-d) + d - 1)` of each token (B, T), with `d = logp - ref`.

    `logp` and `ref` (B, T) are the log-probabilities of the sampled tokens under the policy and under the reference.
    Before `coef`, the value is held below 10, where it loses its gradient. `straight_through` keeps the value and takes
    the gradient of `kl_k2`. Raises `PartError` without a reference's log-probabilities.
    """
    gap = -_log_ratio_to_reference(tokens).clamp(-20.0, 20.0)
    value = (gap.exp() - gap - 1).clamp(-10.0, 10.0)
    if straight_through:
        square = kl_k2(tokens, coef=1.0)
        value = value.detach() + square - square.detach()
    return coef * value


@needs("ref", "proximal")
def kl_convex(tokens: Tokens, *, coef: NonNegative = 0.001, base: Share = 0.5) -> Tensor:
    """ReMix (arXiv:2507.06892): `coef * (base * KL(policy || reference) + (1 - base) * KL(policy || before))`, (B, T).

    Both are estimated as in `kl_k3`; "before" is the policy at the start of the update. Raises `PartError` without a
    reference's log-probabilities.
    """
    near = -(tokens.logp - tokens.old).clamp(-20.0, 20.0)
    return coef * (base * kl_k3(tokens, coef=1.0) + (1 - base) * (near.exp() - near - 1))


def square_log_ratio(tokens: Tokens, *, coef: NonNegative = 0.001, anchor: Literal["old", "sampler"] = "old") -> Tensor:
    """`coef * (logp - anchor)^2` of each token (B, T): holds the policy near the one that sampled, without a clip.

    It is Kimi k1.5's regulariser (arXiv:2501.12599) with `coef = tau / 2`, and prime-rl's with `anchor="sampler"`.
    """
    return coef * (tokens.logp - (tokens.old if anchor == "old" else tokens.sampler_logp)).square()


def covariance(tokens: Tokens, *, coef: NonNegative = 1.0) -> Tensor:
    """KL-Cov (arXiv:2505.22617): `coef * |logp - old|` (B, T) on the tokens that the stream `covariance` marks.

    The step part `covariance` marks them.
    """
    return coef * (tokens.logp - tokens.old).abs() * tokens.stream("covariance")


@needs("entropy")
def entropy_bonus(tokens: Tokens, *, coef: NonNegative = 0.001) -> Tensor:
    """`-coef * entropy` of the policy at each token (B, T): rewards it for staying undecided."""
    return -coef * tokens.entropy


@needs("value")
def value_error(tokens: Tokens, *, coef: NonNegative = 0.5, clip: NonNegative = 0.5) -> Tensor:
    """PPO's critic loss: half the squared error of `value`, or of `value` within `clip` of its old value if larger.

    The error is that against `tokens.returns` (B, T), times `coef`. `clip=inf` is the plain squared error. Raises
    `PartError` if `tokens` lacks the critic's numbers.
    """
    if tokens.value is None or tokens.old_value is None or tokens.returns is None:
        raise PartError("penalty value_error reads value, old_value and returns, which this batch lacks")
    near_old = tokens.value.clamp(tokens.old_value - clip, tokens.old_value + clip)
    return coef * 0.5 * (tokens.value - tokens.returns).square().maximum((near_old - tokens.returns).square())


def _log_ratio_to_reference(tokens: Tokens) -> Tensor:
    if tokens.ref is None:
        raise PartError("a KL penalty reads the reference's log-probabilities, which this batch lacks")
    return tokens.logp - tokens.ref
