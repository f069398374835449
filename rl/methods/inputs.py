"""What the parts of a recipe are given: rows, tokens and labels of an update, and the recipe's normalization.

P groups, G trajectories of a group, B rows, T tokens of a row. Nothing here imports torch at run time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor

PerTrajectory = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


class Normalization(NamedTuple):
    """The two slots that a credit part may read: how rewards become advantages.

    `baseline(rewards, group, lengths)` is what a reward is compared with; `scale(advantages, rewards, group)` divides
    the difference by a unit. All arrays are (B,), one entry per trajectory or turn that is compared.
    """

    baseline: PerTrajectory
    scale: PerTrajectory


@dataclass(frozen=True, slots=True)
class Row:
    """One unbroken history, split after its first context, which group members share.

    All arrays run over `ids` (T,), whose first token is sampled. `prefix` is never trained.

        Row(prefix=(5, 9, 2), ids=[7, 3, 8, 8, 4], mask=[1, 1, 0, 0, 1], turn=[0, 0, -1, -1, 1], ...)
    """

    prefix: tuple[int, ...]
    ids: np.ndarray
    mask: np.ndarray
    old: np.ndarray
    adv: np.ndarray
    turn: np.ndarray
    streams: dict[str, np.ndarray]  # the named numbers of the turns, 0 where not sampled
    trajectory: int
    group: int
    temperature: float = 1.0
    replayed: bool = False

    @property
    def size(self) -> int:
        """Tokens that a forward pass computes for this row alone."""
        return len(self.ids)


@dataclass(frozen=True, slots=True)
class Labels:
    """Who a row belongs to. B rows of T tokens; a trajectory whose history was rewritten has several rows."""

    trajectory: Tensor  # (B,) int64, numbered over the whole optimiser step
    group: Tensor  # (B,) int64
    turn: Tensor  # (B, T) int64, turn index of a sampled token, -1 elsewhere
    replayed: Tensor | None = None  # (B,) bool, True where nobody played it for this update; None where all were played


@dataclass(frozen=True, slots=True)
class Tokens:
    """All that a loss part may read, (B, T) each. Only `logp`, `entropy` and `value` carry a gradient."""

    logp: Tensor  # current policy, log-probability of the token at this index; 0 where not sampled
    old: Tensor  # behaviour log-probability recorded by the sampler; 0 where not sampled
    adv: Tensor  # advantage; 0 where not sampled
    mask: Tensor  # bool, True where sampled
    share: Tensor  # float, this token's share of the optimiser step's loss (from `reduce`); 0 where not sampled
    entropy: Tensor  # of the current policy, nats
    labels: Labels
    ref: Tensor | None = None  # reference policy's log-probability
    value: Tensor | None = None  # critic's value before this token
    old_value: Tensor | None = None  # the same when the advantages were computed
    returns: Tensor | None = None  # what `value` should have been
