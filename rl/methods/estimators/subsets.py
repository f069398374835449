"""Which rows of an update are trained on: Boolean masks (R,), from one number and one group label per row."""

from __future__ import annotations

from typing import Literal

import numpy as np

from rl.methods.estimators import statistics
from rl.methods.estimators.statistics import Bools, Floats, Ints


def most_varied(values: Floats, group: Ints, *, ratio: float, lowest: bool = False, least: int = 0) -> Bools:
    """StarPO-S (arXiv:2504.20073): the `int(ratio * groups)` groups whose values vary most, or least.

    A group of one does not vary. Raises `ValueError` when no group would be left; `least` is how many always are.
    """
    _, first, member = np.unique(group, return_index=True, return_inverse=True)
    count = max(int(ratio * len(first)), least)
    if not count and len(first):
        raise ValueError(f"ratio={ratio} of {len(first)} groups leaves none")
    spread = statistics.group_std(values, group)[first]
    order = np.argsort(spread if lowest else -spread, kind="stable")
    return np.isin(member, order[:count])


def without_lowest(values: Floats, group: Ints, *, ratio: float, by: Literal["std", "mean"] = "std") -> Bools:
    """AT-GRPO's group filters: drop the `int(ratio * groups)` groups of the least deviation, or the least mean."""
    _, first, member = np.unique(group, return_index=True, return_inverse=True)
    measure = (statistics.group_std if by == "std" else statistics.group_mean)(values, group)[first]
    return ~np.isin(member, np.argsort(measure, kind="stable")[: int(ratio * len(first))])


def nearest_to_mean(values: Floats, group: Ints, *, ratio: float) -> Bools:
    """AT-GRPO's row filter: drop the `int(ratio * n)` rows of each group that lie farthest from its mean.

    Of rows equally far, those that come first are dropped.
    """
    distance = np.abs(values - statistics.group_mean(values, group))
    order = np.lexsort((np.arange(len(values)), -distance, group))
    return _rank(order, group) >= (ratio * statistics.group_size(group)).astype(np.int64)


def resampled_on_correct(
    rewards: Floats, penalty: Floats, *, keep: int, least: int = 2, rng: np.random.Generator | None = None
) -> Bools:
    """GRPO-RoC (arXiv:2508.20722): `keep` members of one group, with the cleanest of those that succeeded.

    Members with a reward above 0 and the others are kept in proportion to their numbers, but at least `least` of each
    where there are as many. The first are those of the lowest `penalty`, the others come in order; with `rng`, the
    first are drawn with weight `1 / (penalty + 0.1)` and the others evenly. A group of at most `keep` stays whole.
    """
    if len(rewards) <= keep:
        return np.ones(len(rewards), dtype=np.bool_)
    won, lost = np.nonzero(rewards > 0)[0], np.nonzero(rewards <= 0)[0]
    few_won, few_lost = min(least, len(won)), min(least, len(lost))
    num_won, num_lost = round(len(won) * keep / len(rewards)), round(len(lost) * keep / len(rewards))
    if num_lost <= few_lost:
        num_won, num_lost = keep - few_lost, few_lost
    if num_won <= few_won:
        num_won, num_lost = few_won, keep - few_won
    if len(won) >= len(lost):  # both were rounded: the larger class makes up for it
        num_won = keep - num_lost
    num_won = min(max(num_won, keep - len(lost)), len(won), keep)
    num_lost = keep - num_won
    if rng is None:
        chosen = np.concatenate([won[np.argsort(penalty[won], kind="stable")][:num_won], lost[:num_lost]])
    else:
        weight = 1.0 / (penalty[won] + 0.1)
        drawn = rng.choice(won, num_won, replace=False, p=weight / weight.sum()) if num_won else won[:0]
        chosen = np.concatenate([drawn, rng.choice(lost, num_lost, replace=False) if num_lost else lost[:0]])
    kept = np.zeros(len(rewards), dtype=np.bool_)
    kept[chosen] = True
    return kept


def error_share(errors: Floats, calls: Floats) -> Floats:
    """GRPO-RoC's first penalty (N,): the share of tool calls that failed; 0.5 where there was none."""
    return np.where(calls > 0, errors / np.maximum(calls, 1), 0.5)


def answer_penalty(answers: Ints, balanced: Bools, turns: Ints) -> Floats:
    """GRPO-RoC's second penalty (N,): answers beyond one per turn, at most 1; 1 where none is given as it should be."""
    spare = np.minimum((answers - 1) / np.maximum(turns, 1), 1.0)
    return np.where((answers > 0) & balanced & (turns > 0), spare, 1.0)


def highest(values: Floats, group: Ints, *, share: float) -> Bools:
    """DART (arXiv:2509.23866): the `int(share * n)` rows of each group with the highest values, at least one.

    Of equal rows, those that come first are kept.
    """
    order = np.lexsort((np.arange(len(values)), -values, group))
    return _rank(order, group) < np.maximum((share * statistics.group_size(group)).astype(np.int64), 1)


def _rank(order: Ints, group: Ints) -> Ints:
    """The place of each row within its group, for an `order` that sorts rows by group first."""
    _, start, size = np.unique(group[order], return_index=True, return_counts=True)
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order)) - np.repeat(start, size)
    return place
