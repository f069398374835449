"""Several named rewards per trajectory, and their weights.

Legend: B trajectories, J named rewards.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rl.methods.estimators import turn_table
from rl.methods.estimators.statistics import Floats
from rl.methods.options import MissingSignal, PartError, did_you_mean
from rl.records import Group

SHAPING = "shaping"


def reward_table(groups: Sequence[Group]) -> tuple[list[str], Floats]:
    """The names of all rewards (J), sorted, and their sums over each trajectory (B, J).

    What shaping added to a return is a reward of its own, `"shaping"`. Where turns name no rewards, the return is the
    only one, `"reward"`.
    """
    members = list(turn_table.trajectories(groups))
    returns = np.array([reward for group in groups for reward in group.rewards], dtype=np.float64)
    shaping = returns - np.array([trajectory.reward for trajectory in members], dtype=np.float64)
    names = sorted({name for trajectory in members for turn in trajectory.turns for name in turn.rewards})
    if not names:
        return ["reward"], returns[:, None]
    sums = [[sum(turn.rewards.get(name, 0.0) for turn in t.turns) for name in names] for t in members]
    table = np.array(sums, dtype=np.float64).reshape(len(members), len(names))
    return ([*names, SHAPING], np.column_stack([table, shaping])) if shaping.any() else (names, table)


def parse_weights(names: Sequence[str], text: str) -> Floats:
    """The weight of each name (J,) from text such as `correct:2+format:0.5`; 1 for a name it does not mention.

    Raises `MissingSignal` for a name that no reward has, `PartError` for a weight that is not a number.
    """
    weight_of = dict(pair.rpartition(":")[::2] for pair in text.split("+") if pair)
    if unknown := sorted(weight_of.keys() - set(names) - {SHAPING}):
        hint = did_you_mean(unknown[0], names) or f"; there are {', '.join(names)}"
        raise MissingSignal(f"no reward is named {unknown[0]!r}{hint}")
    try:
        return np.array([float(weight_of.get(name, 1.0)) for name in names])
    except ValueError:
        raise PartError(f"weights {text!r} are not of the form name:number+name:number") from None
