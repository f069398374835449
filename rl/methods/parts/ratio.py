"""The log-ratio of current against sampling policy that a surrogate reads: `(tokens) -> (B, T)`.

B rows, T token positions; the numbers of tokens that were not sampled are never read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rl.methods.estimators import segments
from rl.methods.parts import MISMATCH, SAMPLER_RATIO, traits

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


def prefix_minimum(tokens: Tokens) -> Tensor:
    """MinPRO (arXiv:2601.22718): the token's own log-ratio plus the least one before it in the trajectory (B, T).

    The least is 0 for the first sampled token, and stands for the product of all ratios before the token, which is the
    right weight but unstable. It has no gradient.
    """
    log_ratio = tokens.logp - tokens.old
    return log_ratio + segments.least_before(log_ratio.detach(), tokens.mask, tokens.labels)
