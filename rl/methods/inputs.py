"""What the parts of a recipe read: rows, tokens and labels of an update, and the recipe's normalization.

Legend: B rows or trajectories, T token positions of a row. Nothing here imports torch at run time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from agents.images import PlacedImage
from rl.methods.options import PartError

if TYPE_CHECKING:
    from torch import Tensor

PerTrajectory = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]  # three arrays (B,) to one


class Normalization(NamedTuple):
    """How returns become advantages: the `baseline` and the `scale` of a recipe, the two slots that credit parts read.

    `baseline(rewards, group, lengths)` is what a reward is compared with; `scale(advantages, rewards, group)` divides
    the difference by a unit. All arrays are (B,), one entry per trajectory or turn that is compared.
    """

    baseline: PerTrajectory
    scale: PerTrajectory


@dataclass(frozen=True, slots=True)
class Row:
    """One unbroken token history, split after its first context, which members of a group share.

    All arrays are (T,), aligned with `ids`, whose first token is sampled. `prefix` is never trained.

        Row(prefix=(5, 9, 2), ids=[7, 3, 8, 8, 4], mask=[1, 1, 0, 0, 1], turn=[0, 0, -1, -1, 1], ...)
    """

    prefix: tuple[int, ...]
    ids: np.ndarray  # (T,) int64
    mask: np.ndarray  # (T,) bool, True where sampled
    old: np.ndarray  # (T,) log-probability recorded by the sampler; 0 where not sampled
    adv: np.ndarray  # (T,) advantage; 0 where not sampled
    turn: np.ndarray  # (T,) int64, turn index of a sampled token, -1 elsewhere
    streams: dict[str, np.ndarray]  # (T,) each, the named numbers of the turns; 0 where not sampled
    trajectory: int
    group: int
    temperature: float = 1.0
    replayed: bool = False  # of an earlier group, or played by another than the policy
    agent: str = "agent"  # whose trajectory it is: a seat, or a role
    episode: int = 0  # trajectories of the same episode have the same number
    images: tuple[PlacedImage, ...] = ()  # those that tokens of `prefix` and `ids` stand for

    @property
    def size(self) -> int:
        """Number of tokens that a forward pass computes for this row alone: those of `ids`, without the prefix."""
        return len(self.ids)


@dataclass(frozen=True, slots=True)
class Labels:
    """Which trajectory, group and turn tokens belong to. A trajectory whose history was rewritten has several rows."""

    trajectory: Tensor  # (B,) int64, numbered over the whole optimiser step
    group: Tensor  # (B,) int64
    turn: Tensor  # (B, T) int64, turn index of a sampled token, -1 elsewhere
    replayed: Tensor | None = (
        None  # (B,) bool, True for a record of an earlier group or of a demonstration; None where there is none
    )


@dataclass(frozen=True, slots=True)
class Tokens:
    """Everything a loss part may read, (B, T) each. Only `logp`, `entropy` and `value` carry a gradient."""

    logp: Tensor  # current policy's log-probability of the token at this index; 0 where not sampled
    old: Tensor  # log-probability that ratios compare with: the sampler's record, or `proximal`; 0 where not sampled
    adv: Tensor  # advantage; 0 where not sampled
    mask: Tensor  # bool, True where sampled
    share: Tensor  # float, this token's share of the optimiser step's loss (from `reduce`); 0 where not sampled
    entropy: Tensor  # of the current policy, nats
    labels: Labels
    ref: Tensor | None = None  # reference policy's log-probability
    value: Tensor | None = None  # critic's value before this token
    old_value: Tensor | None = None  # that value when the advantages were computed
    returns: Tensor | None = None  # regression target of `value`
    behaviour: Tensor | None = None  # the sampler's record, where `old` is the trainer's own (stream "proximal")
    streams: Mapping[str, Tensor] = field(default_factory=dict)  # further numbers by name, of score and step parts

    @property
    def sampler_logp(self) -> Tensor:
        """The log-probability that the sampler recorded (B, T), whatever ratios compare with."""
        return self.old if self.behaviour is None else self.behaviour

    def stream(self, name: str) -> Tensor:
        """The numbers (B, T) that a score or a step part gives by this name. Raises `PartError` where none does."""
        try:
            return self.streams[name]
        except KeyError:
            raise PartError(
                f"a part reads the stream {name!r}, which no score or step part of this recipe gives"
            ) from None
