"""Several rewards at once, and their units. N trajectories, J named rewards."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rl.methods.estimators import turn_table
from rl.methods.estimators.statistics import Floats
from rl.methods.options import PartError, did_you_mean
from rl.records import Group

SHAPING = "shaping"


def named(groups: Sequence[Group]) -> tuple[list[str], Floats]:
    """The names of all parts of rewards, sorted, and their sums over each trajectory (N, J).

    What shaping added to a return is a part of its own. Where turns name no parts, the return is the only one.
    """
    played = list(turn_table.trajectories(groups))
    shaped = np.array([reward for group in groups for reward in group.rewards], dtype=np.float64)
    added = shaped - np.array([trajectory.reward for trajectory in played], dtype=np.float64)
    names = sorted({name for trajectory in played for turn in trajectory.turns for name in turn.rewards})
    if not names:
        return ["reward"], shaped[:, None]
    sums = [[sum(turn.rewards.get(name, 0.0) for turn in t.turns) for name in names] for t in played]
    table = np.array(sums, dtype=np.float64).reshape(len(played), len(names))
    return ([*names, SHAPING], np.column_stack([table, added])) if added.any() else (names, table)


def weights(names: Sequence[str], text: str) -> Floats:
    """The weight of each name (J,) from text such as `correct:2+format:0.5`; 1 for a name it does not mention.

    Raises `PartError` for a name there is no reward of, and for a weight that is no number.
    """
    given = dict(pair.rpartition(":")[::2] for pair in text.split("+") if pair)
    if unknown := sorted(given.keys() - set(names) - {SHAPING}):
        hint = did_you_mean(unknown[0], names) or f"; there are {', '.join(names)}"
        raise PartError(f"no reward is named {unknown[0]!r}{hint}")
    try:
        return np.array([float(given.get(name, 1.0)) for name in names])
    except ValueError:
        raise PartError(f"weights {text!r} are not of the form name:number+name:number") from None
