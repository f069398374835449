"""Metrics of an update that say what finer credit could do: shared states, what they settle, and luck after a turn."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rl.methods.estimators import states, turn_table
from rl.records import Group


def credit_metrics(groups: Sequence[Group]) -> dict[str, float]:
    """Return `states/shared`, `states/others`, `states/explained`, `states/luck` and `turns/gain` of these groups.

    Each is left out where it has no meaning; all of the first four are where episodes have one turn, turns have no
    state or no two members of a group were in the same state at the same turn. docs/metrics.md says what they are.
    """
    turns = turn_table.turns_of(groups)
    gains = [turn.streams.get("gain", turn.metrics.get("gain")) for turn in turns]
    amounts = [sum(gain) if isinstance(gain, tuple) else gain for gain in gains if gain is not None]
    metrics = {"turns/gain": float(np.mean(amounts))} if amounts else {}
    if len(turns) == sum(len(group.trajectories) for group in groups) or any(not turn.state for turn in turns):
        return metrics
    table = turn_table.from_groups(groups)
    place = turn_table.group_ids(table.turn_group, [f"{turn.role}: {turn.state}" for turn in turns], table.index)
    returns = turn_table.returns_to_go(table, table.rewards)
    number, total = states.sums_of_others(returns, None, place, table.trajectory)
    is_shared = number > 0.5
    metrics |= {"states/shared": float(is_shared.mean()), "states/others": float(number.mean())}
    base = turn_table.mean_of_others(table, returns)
    around = float(np.mean((returns - base)[is_shared] ** 2)) if is_shared.any() else 0.0
    if around <= states.NEGLIGIBLE:
        return metrics
    within = _variance(returns, number, total)
    metrics["states/explained"] = 1 - within / around
    is_last = table.index + 1 == table.num_turns[table.trajectory]
    led_to = [
        turn.completion.ids if last else after.state
        for turn, after, last in zip(turns, [*turns[1:], turns[-1]], is_last, strict=True)
    ]
    number, total = states.sums_of_others(returns, None, turn_table.group_ids(place, led_to), table.trajectory)
    if (number > 0.5).any():
        metrics["states/luck"] = _variance(returns, number, total) / around
    return metrics


def _variance(returns: np.ndarray, number: np.ndarray, total: np.ndarray) -> float:
    """The variance of returns within places that others were in, from each one's distance to the others' mean."""
    rows = number > 0.5
    n = number[rows]
    return float(np.mean((returns[rows] - total[rows] / n) ** 2 * n / (n + 1)))
