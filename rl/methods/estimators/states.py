"""Which turns began in the same state, and what that says of their returns.

Legend: R turns of an update, in order, trajectory by trajectory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import SequenceMatcher

import numpy as np

from rl.methods.estimators import statistics, turn_table
from rl.methods.estimators.shapes import expect_shapes
from rl.methods.estimators.statistics import Floats, Ints

NEGLIGIBLE = 1e-8  # an advantage this small is a rounding error of 0


def cluster_similar(states: Sequence[str], group: Ints, *, threshold: float) -> Ints:
    """Cluster labels (R,) of similar `states` (R texts) within each `group` (R,): GiGPO's similarity grouping.

    A text joins the first cluster whose first member it resembles by a `difflib` ratio of at least `threshold`, or
    opens a new one. Clusters depend on the order of turns. A text that has been met before costs nothing.
    """
    clusters: dict[int, list[tuple[str, int]]] = {}  # of a group: the first text and the label of each cluster
    label_of: dict[tuple[int, str], int] = {}
    count = 0
    for state, number in zip(states, group.tolist(), strict=True):
        if (number, state) in label_of:
            continue
        candidates = clusters.setdefault(number, [])
        for first, label in candidates:
            if _is_similar(state, first, threshold):
                label_of[number, state] = label
                break
        else:
            candidates.append((state, count))
            label_of[number, state] = count
            count += 1
    return np.array([label_of[pair] for pair in zip(group.tolist(), states, strict=True)], dtype=np.int64)


def history_groups(state: Ints, index: Ints, *, depth: int) -> list[Ints]:
    """For each `h` in `0 .. depth`, labels (R,) equal where the last `h + 1` states are equal; -1 before turn `h`.

    `state` (R,) labels states, differently in different groups; `index` (R,) is a turn's place in its trajectory.
    """
    expect_shapes(state=(state, "R"), index=(index, "R"))
    levels = [turn_table.group_ids(state)]
    for h in range(1, depth + 1):
        rows = np.nonzero(index >= h)[0]
        labels = np.full(len(state), -1)
        labels[rows] = turn_table.group_ids(levels[-1][rows], state[rows - h])
        levels.append(labels)
    return levels


def blend_levels(
    values: Floats,
    levels: Sequence[Ints],
    lengths: Ints,
    compare: Callable[[Floats, Ints, Ints], Floats],
    *,
    alpha: float = 1.0,
    episode: Floats | None = None,
) -> Floats:
    """HGPO's advantage (R,): the mean over depths `h` of each level's advantage, weighted by `(h + 2)^alpha`.

    A level at which a turn has no other to be compared with (a unique label, or -1) is left out of its mean, and so is
    one at which its advantage is 0.

    Args:
        values: Returns (R,) of turns.
        levels: Labels (R,) of the turns to compare, one array per depth, as `history_groups` gives them.
        lengths: Sampled tokens (R,) of turns.
        compare: Advantages from `(values, labels, lengths)` of some turns.
        alpha: The power of the weights; 0 weighs all depths equally.
        episode: Advantages (R,) of the turns' trajectories, which join the mean with weight 1.
    """
    expect_shapes(values=(values, "R"), lengths=(lengths, "R"), **{f"level{h}": (x, "R") for h, x in enumerate(levels)})
    levels_by_weight = [] if episode is None else [(1.0, episode)]
    for h, labels in enumerate(levels):
        advantages = np.zeros(len(values))
        rows = np.nonzero(labels >= 0)[0]
        rows = rows[statistics.group_size(labels[rows]) > 1]
        advantages[rows] = compare(values[rows], labels[rows], lengths[rows])
        levels_by_weight.append((float(h + 2) ** alpha, advantages))
    weights = np.array([weight * (np.abs(advantages) > NEGLIGIBLE) for weight, advantages in levels_by_weight])
    table = np.array([advantages for _, advantages in levels_by_weight])
    return (weights * table).sum(0) / (weights.sum(0) + 1e-6)


def merge_values(
    rewards: Floats, returns: Floats, place: Ints, following: Ints, *, lam: Floats, gamma: float, sweeps: int
) -> Floats:
    """What each turn is worth (R,): its reward and then the mean worth of all turns at the place that it led to.

    `worth = reward + gamma * (lam * own return after it + (1 - lam) * mean worth at the next place)`, from the last
    turns backwards. With places that are Markov and hold the turn's number, the mean is an unbiased estimate of the
    value there from all who came by, and luck after the turn is averaged out. Where no place is met twice, `worth` is
    the return.

    Args:
        rewards: Rewards (R,).
        returns: Returns to go (R,), discounted by `gamma`.
        place: Labels (R,) from 0 of the places in which turns began.
        following: The row (R,) of the trajectory's next turn; -1 for its last.
        lam: Weight (R,) of a turn's own return against the merged value.
        gamma: Discount per turn.
        sweeps: Most passes over all turns; as many as the longest trajectory has turns suffice without cycles.
    """
    expect_shapes(rewards=(rewards, "R"), returns=(returns, "R"), place=(place, "R"), lam=(lam, "R"))
    goes_on = following >= 0
    count = np.bincount(place)
    next_place = place[following]
    own = lam * np.where(goes_on, returns[following], 0.0)
    worth = returns
    for _ in range(sweeps):
        value = np.bincount(place, worth) / count
        newer = rewards + gamma * (own + (1 - lam) * np.where(goes_on, value[next_place], 0.0))
        change = np.abs(newer - worth).max(initial=0.0)
        worth = newer
        if change <= NEGLIGIBLE * max(1.0, np.abs(returns).max(initial=0.0)):
            break
    return worth


def sums_of_others(values: Floats, weight: Floats | None, place: Ints, trajectory: Ints) -> tuple[Floats, Floats]:
    """For each turn, over the other trajectories at its place: the sum of weights, and of weights times values (R,).

    Without `weight` (R,), a trajectory counts once at a place however often it came by, with the mean of its `values`.
    """
    expect_shapes(values=(values, "R"), place=(place, "R"), trajectory=(trajectory, "R"))
    cell = turn_table.group_ids(place, trajectory)
    if weight is None:
        weight = 1 / statistics.group_size(cell)
    totals = [np.bincount(place, x)[place] - np.bincount(cell, x)[cell] for x in (weight, weight * values)]
    is_alone = statistics.group_size(cell) == statistics.group_size(place)
    return np.where(is_alone, 0.0, totals[0]), np.where(is_alone, 0.0, totals[1])


def shrinkage(worth: Floats, base: Floats, place: Ints, trajectory: Ints, index: Ints) -> Floats:
    """How many visits by others the fallback `base` is worth (R,), by empirical Bayes for each turn number of a batch.

    It is the variance of `worth` within a place over the variance of places' means round `base`, from
    `E (worth - mean of n others)^2 = W (1 + 1/n)` and `E (worth - base)^2 = W + T`; both are smoothed by 16
    observations of their mean over all turns. Because all returns of the batch enter, what is built on it is unbiased
    in large batches only.
    """
    number, total = sums_of_others(worth, None, place, trajectory)
    rows = np.nonzero(number > 0.5)[0]
    if len(rows) < 8:
        return np.full(len(worth), 1e6)
    n, at = number[rows], index[rows]
    within = (worth[rows] - total[rows] / n) ** 2 * n / (n + 1)
    around = (worth[rows] - base[rows]) ** 2
    size = int(index.max()) + 1
    count = np.bincount(at, minlength=size) + 16
    w = (np.bincount(at, within, minlength=size) + 16 * within.mean()) / count
    e = (np.bincount(at, around, minlength=size) + 16 * around.mean()) / count
    return np.clip(w / np.maximum(e - w, 1e-3 * w + 1e-12), 1e-6, 1e6)[index]


def _is_similar(text: str, other: str, threshold: float) -> bool:
    matcher = SequenceMatcher(None, text, other)
    upper_bounds = (matcher.real_quick_ratio, matcher.quick_ratio)  # much cheaper than the ratio itself
    return all(bound() >= threshold for bound in upper_bounds) and matcher.ratio() >= threshold
