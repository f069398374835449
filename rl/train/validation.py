"""Greedy evaluation during a run, on tasks that are not trained on: `val` for the cold start, `test` for the result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rl.evaluate.runner import OnGroup, evaluate, tickets
from rl.policy.engine import Engine
from rl.records import Ticket, Trajectory
from rl.rollout.runner import Runner
from rl.train.loop import TrainingStopped
from rl.train.progress import Progress


async def play_greedily(
    runner: Runner,
    policy: Engine,
    tasks: int,
    episodes: int,
    seed: int,
    split: str,
    on_group: OnGroup = lambda group: None,
) -> list[Trajectory]:
    """Play `episodes` distinct tasks of a split, chosen by `seed`, and close the runner.

    Args:
        runner: Makes the environments; its sampling parameters should be greedy.
        policy: The engine that `runner` samples from.
        tasks: Number of tasks in the split; with fewer than `episodes`, all of them are played once.
        episodes: Number of episodes.
        seed: Seed of the choice of tasks.
        split: Name of the split.
        on_group: Called with each group that ended.

    Returns:
        The episodes that ended properly; those that raised errors are left out.

    Raises:
        TrainingStopped: Every episode failed, or the engine did.

    """
    try:
        # The deadline of a reply includes the wait for a slot, so no more episodes are played than the engine has.
        play_tickets = _tickets(tasks, episodes, seed, split)
        groups = await evaluate(runner, play_tickets, concurrency=policy.slots, on_group=on_group)
    finally:
        runner.close()
    if policy.failure:  # the episodes that had ended by then are a biased sample
        raise TrainingStopped(f"the sampling engine died: {policy.failure}")
    trajectories = [trajectory for group in groups for trajectory in group.trajectories]
    if not trajectories:
        raise TrainingStopped(f"every {split} episode fails: {groups[0].errored[-1].error}")
    return trajectories


def _tickets(tasks: int, episodes: int, seed: int, split: str) -> list[Ticket]:
    """Return tickets with negative numbers: the policy tells episodes apart by them, and those in training go on."""
    return [replace(ticket, number=-1 - ticket.number) for ticket in tickets(tasks, episodes, 1, seed, split)]


def success_rate(trajectories: Sequence[Trajectory]) -> float:
    """Return the share of `trajectories` that succeeded, in [0, 1]. There must be at least one."""
    return sum(trajectory.success for trajectory in trajectories) / len(trajectories)


def run_summary(success_before: float | None, success_after: float | None, progress: Progress) -> dict[str, Any]:
    """Return the contents of a run's `summary.json`; the success rates are None without an evaluation.

    Keys: `success_before`, `success_after`, the number of `updates` and of `episodes`, `wall_s`, the seconds of all
    updates, and `tokens_per_s`, sampled tokens by those seconds.
    """
    return {
        "success_before": success_before,
        "success_after": success_after,
        "updates": progress.update,
        "episodes": progress.episodes,
        "wall_s": round(progress.seconds, 2),
        "tokens_per_s": round(progress.tokens / max(progress.seconds, 1e-9), 1),
    }
