"""Which trajectories of an update are trained on, as Boolean masks.

Legend: B trajectories of an update, G of one group.
"""

from __future__ import annotations

import numpy as np

from rl.methods.estimators import statistics
from rl.methods.estimators.shapes import expect_shapes
from rl.methods.estimators.statistics import Bools, Floats, Ints


def most_varied(values: Floats, group: Ints, *, ratio: float, lowest: bool = False, least: int = 0) -> Bools:
    """StarPO-S's selection (arXiv:2504.20073): the groups whose `values` (B,) vary most, as a mask (B,).

    The mask is True on all members of `int(ratio * groups)` groups, at least `least`; `lowest` selects those that vary
    least instead. `group` (B,) labels groups; a group of one does not vary. Raises `ValueError` when no group would be
    selected.
    """
    expect_shapes(values=(values, "B"), group=(group, "B"))
    _, first, member = np.unique(group, return_index=True, return_inverse=True)
    count = max(int(ratio * len(first)), least)
    if not count and len(first):
        raise ValueError(f"ratio={ratio} of {len(first)} groups selects none")
    spread = statistics.group_std(values, group)[first]
    order = np.argsort(spread if lowest else -spread, kind="stable")
    return np.isin(member, order[:count])


def resample_on_correct(rewards: Floats, penalty: Floats, *, keep: int, least: int = 2) -> Bools:
    """GRPO-RoC (arXiv:2508.20722): `keep` members of one group, with the cleanest of its successes.

    The mask (G,) is True on members to keep. Members with a reward above 0 and the others are kept in proportion to
    their numbers, but at least `least` of each where there are as many. Successes are taken by the lowest `penalty`
    (G,), failures in order. A group of at most `keep` members stays whole.
    """
    expect_shapes(rewards=(rewards, "G"), penalty=(penalty, "G"))
    if len(rewards) <= keep:
        return np.ones(len(rewards), dtype=np.bool_)
    successes, failures = np.nonzero(rewards > 0)[0], np.nonzero(rewards <= 0)[0]
    min_successes, min_failures = min(least, len(successes)), min(least, len(failures))
    num_successes = round(len(successes) * keep / len(rewards))
    num_failures = round(len(failures) * keep / len(rewards))
    if num_failures <= min_failures:
        num_successes, num_failures = keep - min_failures, min_failures
    if num_successes <= min_successes:
        num_successes, num_failures = min_successes, keep - min_successes
    if len(successes) >= len(failures):  # both were rounded: the larger class makes up for it
        num_successes = keep - num_failures
    num_successes = min(max(num_successes, keep - len(failures)), len(successes), keep)
    num_failures = keep - num_successes
    cleanest = successes[np.argsort(penalty[successes], kind="stable")][:num_successes]
    mask = np.zeros(len(rewards), dtype=np.bool_)
    mask[np.concatenate([cleanest, failures[:num_failures]])] = True
    return mask


def error_share(num_errors: Floats, num_calls: Floats) -> Floats:
    """GRPO-RoC's penalty (B,): the share `num_errors / num_calls` of tool calls that failed; 0.5 without calls.

    `num_errors` and `num_calls` (B,) count the calls of each trajectory.
    """
    expect_shapes(num_errors=(num_errors, "B"), num_calls=(num_calls, "B"))
    return np.where(num_calls > 0, num_errors / np.maximum(num_calls, 1), 0.5)
