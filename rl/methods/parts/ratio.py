"""The log-ratio of current against sampling policy that a surrogate reads: `(tokens) -> (B, T)`.

B rows, T token positions; the numbers of tokens that were not sampled are never read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from rl.methods.estimators import segments
from rl.methods.parts import MISMATCH, SAMPLER_RATIO, needs, traits

if TYPE_CHECKING:
    from torch import Tensor

    from rl.methods.inputs import Tokens


def token(tokens: Tokens) -> Tensor:
    """PPO: each token's own log-ratio (B, T) of current against sampling policy, `logp - old`."""
    return tokens.logp - tokens.old


def on_policy(tokens: Tokens) -> Tensor:
    """REINFORCE: log-ratios (B, T) of 0 that have the gradient of `logp`, whatever policy sampled the tokens."""
    return tokens.logp - tokens.logp.detach()


def sequence(tokens: Tokens) -> Tensor:
    """GSPO (arXiv:2507.18071, eq. 7): the mean log-ratio over all sampled tokens of a trajectory.

    The result (B, T) has this value at each of the trajectory's positions.
    """
    mean = segments.mean_over_trajectory(tokens.logp - tokens.old, tokens.mask, tokens.labels)
    return mean.expand_as(tokens.logp)


def sequence_token(tokens: Tokens) -> Tensor:
    """GSPO-token (arXiv:2507.18071, eq. 14): the value of `sequence`, the gradient of each token's own `logp`.

    The value is the mean log-ratio of the token's trajectory; the result is (B, T). It differs from `sequence` where
    advantages vary within a trajectory. Capped at 10, where it loses its gradient.
    """
    return (sequence(tokens).detach() + on_policy(tokens)).clamp(max=10.0)


def turn(tokens: Tokens) -> Tensor:
    """The mean log-ratio over the sampled tokens of a turn, on each of them (B, T): `sequence` for one turn at a time.

    In a long episode a mean over the whole trajectory hides a single bad turn; this one does not.
    """
    return segments.mean_over_turn(tokens.logp - tokens.old, tokens.mask, tokens.labels)


@traits(SAMPLER_RATIO, excludes={MISMATCH: "the sampler's mismatch would count twice"})
def sampler(tokens: Tokens) -> Tensor:
    """Each token's log-ratio (B, T) of current policy against the sampler's own record.

    Elsewhere ratios compare with `tokens.old`, which is the trainer's own log-probability where the run decouples them.
    """
    return tokens.logp - tokens.sampler_logp


@traits(SAMPLER_RATIO, excludes={MISMATCH: "the sampler's mismatch would count twice"})
def sequence_product(tokens: Tokens) -> Tensor:
    """The log of the product of all ratios of a trajectory against the sampler's record, on each position (B, T).

    This is the importance weight of the whole trajectory, which `sequence` normalises by length.
    """
    log_ratio = (tokens.logp - tokens.sampler_logp) * tokens.mask
    return segments.row_sum(log_ratio, tokens.labels.trajectory).expand_as(tokens.logp)


@traits(SAMPLER_RATIO, excludes={MISMATCH: "the sampler's mismatch would count twice"})
@needs("staleness")
def interpolated(tokens: Tokens, *, kind: Literal["log", "linear", "sampler"] = "log") -> Tensor:
    """AReaL (arXiv:2505.24298): each token's log-ratio (B, T) against a guess of the policy before the update.

    The guess needs no forward pass: it lies between the sampler's record and the current policy, as far from the first
    as the sampler was behind (stream `staleness`), in log-probability or with `kind="linear"` in probability. It has no
    gradient. With `kind="sampler"` it is the record itself. `select=interpolated_tis` weighs the rest of the way.
    """
    return tokens.logp - segments.between(tokens.sampler_logp, tokens.logp.detach(), tokens.stream("staleness"), kind)


def prefix_minimum(tokens: Tokens) -> Tensor:
    """MinPRO (arXiv:2601.22718): the token's own log-ratio plus the least one before it in the trajectory (B, T).

    The least is 0 for the first sampled token, and stands for the product of all ratios before the token, which is the
    right weight but unstable. It has no gradient.
    """
    log_ratio = tokens.logp - tokens.old
    return log_ratio + segments.least_before(log_ratio.detach(), tokens.mask, tokens.labels)
