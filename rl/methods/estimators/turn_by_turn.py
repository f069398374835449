"""SeeUPO (arXiv:2602.06554): turns updated one after another, each aware of how far the later ones have moved.

After the update of a turn, a trajectory's advantage at the next one is multiplied by `carry_ratio`'s result. The
advantage itself is `credit.outcome` with `baseline.group_mean` and `scale.bounded_std`.

Legend: B trajectories, T tokens of the turn that was updated.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from rl.methods.estimators.shapes import expect_shapes
from rl.methods.estimators.statistics import Bools, Floats


def order(num_turns: int, *, kind: Literal["reverse", "forward"] = "reverse") -> list[int]:
    """The indices `0 .. num_turns - 1` in the order in which turns are updated: ascending if `kind` is "forward".

    With "reverse" they run from last to first, so that each update builds on improved later turns.
    """
    return list(range(num_turns))[:: -1 if kind == "reverse" else 1]


def carry_ratio(
    before: Floats, after: Floats, mask: Bools, previous: Floats | None = None, *, low: float = 0.2, high: float = 0.2
) -> Floats:
    """Factor (B,) on each trajectory's next advantage: `previous` times how much likelier its turn has become.

    Args:
        before: Log-probabilities (B, T) of the turn's tokens before its update.
        after: The same after it.
        mask: True (B, T) on the turn's tokens. A trajectory without the turn keeps its `previous` factor.
        previous: The factor (B,) of earlier updates; None stands for 1.
        low: The exponential of the mean difference is held within `1 - low` and `1 + high`, and so is the product.
        high: See `low`.
    """
    expect_shapes(before=(before, "BT"), after=(after, "BT"), mask=(mask, "BT"))
    count = mask.sum(1)
    mean_change = np.where(mask, after - before, 0.0).sum(1) / np.maximum(count, 1)
    ratio = np.exp(mean_change).clip(1 - low, 1 + high)
    ratio = ratio if previous is None else previous * ratio
    default = np.ones(len(count)) if previous is None else previous
    return np.where(count > 0, ratio.clip(1 - low, 1 + high), default)
