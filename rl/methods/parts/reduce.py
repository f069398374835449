"""Each sampled token's share of the optimiser step's loss: `(mask, labels) -> (B, T)`.

B rows of the step, T token positions. Called once per step over all its rows, before they are cut into micro-batches,
so that the sum over micro-batches is exact. `mask` (B, T) is 1.0 where sampled. The rows of a trajectory count as one
trajectory; one without sampled tokens is not counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rl.methods.estimators import segments
from rl.methods.options import Count

if TYPE_CHECKING:
    from torch import Tensor

    from rl.methods.inputs import Labels


def token_mean(mask: Tensor, labels: Labels) -> Tensor:
    """DAPO (arXiv:2503.14476): every token weighs the same, so long trajectories weigh more.

    Returns shares (B, T): `mask` (B, T) is 1.0 on sampled tokens, and is divided by their number.
    """
    return mask / mask.sum().clamp(min=1)


def turn_mean(mask: Tensor, labels: Labels) -> Tensor:
    """Every turn weighs the same.

    `mask` (B, T) is 1.0 on sampled tokens. The share of such a token is one over the tokens of its turn and over the
    number of turns; the shares (B, T) add up to 1.
    """
    share = mask / segments.turn_sum(mask, labels).clamp(min=1)
    return share / share.sum().round().clamp(min=1)


def turn_sum(mask: Tensor, labels: Labels) -> Tensor:
    """ArCHer (arXiv:2402.19446): the sum over a turn's tokens, averaged over turns.

    Returns shares (B, T): `mask` (B, T) is 1.0 on sampled tokens, and is divided by the number of turns.
    """
    share = mask / segments.turn_sum(mask, labels).clamp(min=1)
    return mask / share.sum().round().clamp(min=1)


def sequence_mean(mask: Tensor, labels: Labels) -> Tensor:
    """GRPO (arXiv:2402.03300): every trajectory weighs the same, so a token of a long one weighs less.

    `mask` (B, T) is 1.0 on sampled tokens. The share of such a token is one over the tokens of its trajectory and over
    the number of trajectories; the shares (B, T) add up to 1.
    """
    share = mask / segments.row_sum(mask, labels.trajectory).clamp(min=1)
    return share / share.sum().round().clamp(min=1)


def sequence_sum(mask: Tensor, labels: Labels) -> Tensor:
    """REINFORCE: the sum over a trajectory's tokens, averaged over trajectories.

    Returns shares (B, T): `mask` (B, T) is 1.0 on sampled tokens, and is divided by the number of trajectories.
    """
    return mask / _num_trajectories(mask, labels)


def constant(mask: Tensor, labels: Labels, *, length: Count, per_trajectory: bool = True) -> Tensor:
    """Dr. GRPO (arXiv:2503.20783): the sum over tokens divided by `length`, averaged over trajectories.

    Returns shares (B, T): `mask` (B, T) is 1.0 on sampled tokens, and is divided by `length` times the number of
    trajectories. `length` is constant for a whole run. `per_trajectory=False` leaves out the average, as some trainers
    ship it.
    """
    return mask / (length * _num_trajectories(mask, labels) if per_trajectory else length)


def group_mean(mask: Tensor, labels: Labels) -> Tensor:
    """Every group weighs the same; within it, every token.

    `mask` (B, T) is 1.0 on sampled tokens. The share of such a token is one over the tokens of its group and over the
    number of groups; the shares (B, T) add up to 1.
    """
    share = mask / segments.row_sum(mask, labels.group).clamp(min=1)
    return share / share.sum().round().clamp(min=1)


def _num_trajectories(mask: Tensor, labels: Labels) -> int:
    return max(1, len(labels.trajectory[mask.any(-1)].unique()))
