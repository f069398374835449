"""When a run stops because nothing that it samples can be trained on."""

from __future__ import annotations

from collections.abc import Sequence

from rl.records import Group
from rl.train.scheduling.plan import TrainingStopped

MAX_REFUSALS = 10  # a run stops after refusing this many updates' worth of groups in a row


def check_refusals(groups: Sequence[Group], per_update: int) -> None:
    """Raise `TrainingStopped` if the last groups, all refused, leave no hope that there will be anything to train on.

    `per_update` is how many groups an update takes.
    """
    num_tickets = len({group.ticket.number for group in groups})
    errors = [trajectory.failure for group in groups for trajectory in group.errored]
    # Wait for as many groups as an update needs: broken tasks fail fast, so they end before any others.
    if num_tickets >= max(per_update, 4) and errors and not any(group.trajectories for group in groups):
        raise TrainingStopped(f"every episode fails: {errors[0]}")
    if num_tickets >= MAX_REFUSALS * per_update:
        rewards = sorted({trajectory.reward for group in groups for trajectory in group.trajectories})
        examples = ", ".join(f"{reward:g}" for reward in rewards[:3]) + (", ..." if len(rewards) > 3 else "")
        raise TrainingStopped(
            f"0 of the last {len(groups)} groups were kept; rewards were {examples}: "
            "the tasks are too easy or too hard for the policy, or --size is too small for rewards to differ"
        )
