"""Greedy play on tasks that are not trained on: what a cold start ends by, and what a run is measured by."""

from __future__ import annotations

from typing import Any

import gymnasium

from rl.evaluate.runner import count_tasks, evaluate, tickets
from rl.policy.batching import Batching
from rl.records import Trajectory
from rl.rollout.runner import Player
from rl.settings import Settings
from rl.train.loop import Progress, TrainingStopped

WITHOUT = {"val": "--cold-start 0 does without", "test": "--eval-episodes 0 does without"}


def sizes(env: gymnasium.Env, settings: Settings) -> dict[str, int]:
    """How many tasks the splits have that a run of these resolved settings plays. Raise `ValueError` for none."""
    found = {"train": count_tasks(env, "train")}
    for split, episodes in (("val", settings.cold_start), ("test", settings.eval_episodes)):
        if episodes:
            try:
                found[split] = count_tasks(env, split)
            except ValueError as error:
                raise ValueError(f"{error}; {WITHOUT[split]}") from error
    return found


async def greedy(
    player: Player, policy: Batching, tasks: int, episodes: int, seed: int, split: str
) -> list[Trajectory]:
    """Episodes on the first of a seeded order of the split's tasks, one that only errs left out; closes the player.

    Raise `TrainingStopped` where all of them err, or the engine died.
    """
    try:
        # More episodes than seats would only wait, with their deadlines running.
        groups = await evaluate(player, tickets(tasks, episodes, 1, seed, split), at_once=policy.slots)
    finally:
        player.close()
    if policy.death:  # then who had ended by chance is no sample
        raise TrainingStopped(f"the sampling engine died: {policy.death}")
    ended = [trajectory for group in groups for trajectory in group.trajectories]
    if not ended:
        raise TrainingStopped(f"every {split} episode fails: {groups[0].errored[-1].error}")
    return ended


def summary(before: float | None, after: float | None, progress: Progress) -> dict[str, Any]:
    """What `summary.json` says of a run that has ended."""
    return {
        "success_before": before,
        "success_after": after,
        "updates": progress.update,
        "episodes": progress.episodes,
        "wall_s": round(progress.seconds, 2),
        "tokens_per_s": round(progress.tokens / max(progress.seconds, 1e-9), 1),
    }
