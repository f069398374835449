"""Which turns stood before the same state, and what that says of their returns. All arrays run over R turns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import SequenceMatcher

import numpy as np

from rl.methods.estimators import statistics, turn_table
from rl.methods.estimators.statistics import Floats, Ints

NOTHING = 1e-8  # an advantage this small is a rounding error of 0


def similar(states: Sequence[str], group: Ints, *, threshold: float) -> Ints:
    """Labels (R,) of clusters of similar texts within a group: GiGPO's similarity grouping.

    A text joins the first cluster whose first member it resembles by a `difflib` ratio of at least `threshold`, or
    opens one. Clusters depend on the order; a text that was seen before costs nothing.
    """
    clusters: dict[int, list[tuple[str, int]]] = {}
    joined: dict[tuple[int, str], int] = {}
    count = 0
    for state, whose in zip(states, group.tolist(), strict=True):
        if (whose, state) in joined:
            continue
        known = clusters.setdefault(whose, [])
        for first, label in known:
            if _alike(state, first, threshold):
                joined[whose, state] = label
                break
        else:
            known.append((state, count))
            joined[whose, state] = count
            count += 1
    return np.array([joined[pair] for pair in zip(group.tolist(), states, strict=True)], dtype=np.int64)


def histories(state: Ints, index: Ints, *, depth: int) -> list[Ints]:
    """For each `h` in `0 .. depth`, labels (R,) equal where the last `h + 1` states are; -1 before turn `h`.

    `state` labels states, of different groups differently; turns lie in order, trajectory by trajectory.
    """
    found = [turn_table.labels(state)]
    for h in range(1, depth + 1):
        deep = np.nonzero(index >= h)[0]
        key = np.full(len(state), -1)
        key[deep] = turn_table.labels(found[-1][deep], state[deep - h])
        found.append(key)
    return found


def blended(
    values: Floats,
    keys: Sequence[Ints],
    lengths: Ints,
    compare: Callable[[Floats, Ints, Ints], Floats],
    *,
    alpha: float = 1.0,
    episode: Floats | None = None,
) -> Floats:
    """HGPO's advantage (R,): the mean over depths `h` of `compare(values, key, lengths)`, weighted by `(h + 2)^alpha`.

    A depth at which a turn has no other to be compared with (`keys[h]` unique, or -1) is left out, and so is one where
    its advantage is 0. `episode` joins with weight 1.
    """
    levels = [] if episode is None else [(1.0, episode)]
    for h, key in enumerate(keys):
        level = np.zeros(len(values))
        rows = np.nonzero(key >= 0)[0]
        rows = rows[statistics.group_size(key[rows]) > 1]
        level[rows] = compare(values[rows], key[rows], lengths[rows])
        levels.append((float(h + 2) ** alpha, level))
    weights = np.array([weight * (np.abs(level) > NOTHING) for weight, level in levels])
    advantages = np.array([level for _, level in levels])
    return (weights * advantages).sum(0) / (weights.sum(0) + 1e-6)


def _alike(text: str, other: str, threshold: float) -> bool:
    matcher = SequenceMatcher(None, text, other)
    bounds = (matcher.real_quick_ratio, matcher.quick_ratio)  # from above, and much cheaper
    return all(bound() >= threshold for bound in bounds) and matcher.ratio() >= threshold
