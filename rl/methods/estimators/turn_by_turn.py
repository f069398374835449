"""SeeUPO (arXiv:2602.06554): turns updated one after another, each seeing how far the later ones have moved.

After the update of turn `k`, a trajectory's advantage at the next one is multiplied by what `carried` returns. The
advantage itself is `credit.outcome` with `baseline.group_mean` and `scale.bounded_std`.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from rl.methods.estimators.statistics import Bools, Floats


def order(turns: int, *, kind: Literal["reverse", "forward"] = "reverse") -> list[int]:
    """The turns in the order of their updates: from the last to the first, so that each builds on better later ones."""
    return list(range(turns))[:: -1 if kind == "reverse" else 1]


def carried(
    before: Floats, after: Floats, mask: Bools, previous: Floats | None = None, *, low: float = 0.2, high: float = 0.2
) -> Floats:
    """How much more likely each trajectory's turn became (N,), times `previous`, held within `1 - low` and `1 + high`.

    `before` and `after` (N, T) are log-probabilities of the turn's tokens around its update; their mean difference
    counts, itself held within the same bounds. A trajectory without this turn (`mask` nowhere True) keeps `previous`.
    """
    count = mask.sum(1)
    moved = np.where(mask, after - before, 0.0).sum(1) / np.maximum(count, 1)
    ratio = np.exp(moved).clip(1 - low, 1 + high)
    ratio = ratio if previous is None else previous * ratio
    kept = np.ones(len(count)) if previous is None else previous
    return np.where(count > 0, ratio.clip(1 - low, 1 + high), kept)
