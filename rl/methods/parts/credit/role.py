"""Credit against what a seat has earned so far, in this update and in earlier ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from rl.methods.estimators import turn_table
from rl.methods.estimators.turn_table import TokenAdvantages
from rl.methods.options import Share
from rl.records import Group

if TYPE_CHECKING:
    from rl.methods.inputs import Normalization


@dataclass
class role_average:
    """SPIRAL (arXiv:2506.24119): a trajectory's return less a moving average of the returns of its seat.

    Each seat, as `Trajectory.agent` names it, has an average `b` of its own, 0 before its first trajectory. Trajectory
    by trajectory, in the order of the groups, `A = R - b` and then `b = decay * b + (1 - decay) * R`, so that no return
    is part of its own baseline. The averages outlive the update. A group may have one member.

    Attributes:
        decay: Weight of the average so far; the authors' is 0.95. With 0, each return is compared with the one before.

    """

    decay: Share = 0.95
    _averages: dict[str, float] = field(default_factory=dict, init=False, compare=False)

    def __call__(self, groups: Sequence[Group], norm: Normalization) -> TokenAdvantages:
        """Return the advantages of `groups`, the same for all tokens of a trajectory; `norm` is not read."""
        table = turn_table.from_groups(groups)
        members = turn_table.trajectories(groups)
        advantages = [self._compare(member.agent, value) for member, value in zip(members, table.returns, strict=True)]
        return turn_table.trajectories_to_tokens(groups, table, np.array(advantages))

    def state_dict(self) -> dict[str, Any]:
        """The average of each seat, as `{"averages": {seat: b}}`."""
        return {"averages": dict(self._averages)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore `state_dict()`."""
        self._averages = dict(state["averages"])

    def _compare(self, seat: str, value: float) -> float:
        """Return the advantage of a return, then add it to the average of its seat."""
        average = self._averages.get(seat, 0.0)
        self._averages[seat] = self.decay * average + (1 - self.decay) * float(value)
        return float(value) - average
