"""How old the groups of an update are, from their tickets and the versions of their tokens."""

from __future__ import annotations

from collections.abc import Sequence

from rl.records import Group


def lag_metrics(training_groups: Sequence[Group], update: int) -> dict[str, float]:
    """Return the metrics of what update number `update`, from 0, is trained on.

    `lag/mean` and `lag/max` are of groups, from their admission on. `lag/oldest` is how many updates older than the
    trained weights its oldest sampled token is, and `lag/mixed` the share of trajectories whose tokens are of several
    versions. Replayed trajectories do not count, nor do tokens without versions. All of them can be computed from a
    run's rollouts too.
    """
    lags = [update - group.ticket.version for group in training_groups]
    versions = [
        {version for turn in trajectory.turns for version in turn.completion.versions}
        for group in training_groups
        for trajectory in group.trajectories
        if not trajectory.replayed
    ]
    versions = [of_trajectory for of_trajectory in versions if of_trajectory]
    return {
        "lag/mean": sum(lags) / len(lags),
        "lag/max": max(lags),
        "lag/oldest": float(max((update - min(of_trajectory) for of_trajectory in versions), default=0)),
        "lag/mixed": sum(len(of_trajectory) > 1 for of_trajectory in versions) / max(len(versions), 1),
    }
