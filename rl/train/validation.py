"""Evaluation during a run, on tasks that are not trained on: `val` for the cold start, `test` for the result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

from rl.evaluate.runner import IncompleteEvaluation, OnGroup, evaluate, tickets
from rl.policy.engine import EngineDead
from rl.records import Group, Ticket, Trajectory
from rl.rollout.runner import Runner
from rl.train.imitation import Measurement
from rl.train.loop import TrainingStopped
from rl.train.progress import Progress
from rl.train.rollout_metrics import seat_metrics
from rl.train.seats.opponents import stop_reason


class Engines(Protocol):
    """The engines that a runner samples from: how much they can do at a time, and whether one has failed."""

    @property
    def slots(self) -> int:
        """Most sequences that each samples at a time."""
        ...

    @property
    def failure(self) -> EngineDead | None:
        """Why one can no longer sample; None while all work."""
        ...


async def play_greedily(
    runner: Runner,
    engines: Engines,
    tasks: int,
    episodes: int,
    seed: int,
    split: str,
    on_group: OnGroup = lambda group: None,
) -> list[Trajectory]:
    """Play `episodes` distinct tasks of a split, chosen by `seed`, and close the runner.

    Args:
        runner: Makes the environments; its sampling parameters should be greedy.
        engines: Those that `runner` samples from.
        tasks: Number of tasks in the split; with fewer than `episodes`, all of them are played once.
        episodes: Number of episodes.
        seed: Seed of the choice of tasks.
        split: Name of the split.
        on_group: Called with each group that ended.

    Returns:
        The episodes that ended properly; those that raised errors are left out.

    Raises:
        TrainingStopped: Every episode failed, the environment hangs, or the engine failed.

    """
    try:
        groups = await _play(runner, engines, tickets(tasks, episodes, 1, seed, split), on_group)
    finally:
        runner.close()
    return [trajectory for group in groups for trajectory in group.trajectories]


async def measure(runner: Runner, engines: Engines, validation_tickets: Sequence[Ticket]) -> Measurement:
    """Play groups of episodes, measure how they end, and close the runner.

    One member of each group is played first. If none of them succeeds and all earn the same, the others are not played:
    a model that cannot play yet takes the longest to do so.

    Args:
        runner: Makes the environments; its sampling parameters should be those of training.
        engines: Those that `runner` samples from.
        validation_tickets: The groups to play.

    Raises:
        TrainingStopped: Every episode failed, or the engine did.

    """
    try:
        groups = await _play(runner, engines, [replace(ticket, size=1) for ticket in validation_tickets])
        first = [trajectory for group in groups for trajectory in group.trajectories]
        if any(trajectory.success for trajectory in first) or len({trajectory.reward for trajectory in first}) > 1:
            groups = await _play(runner, engines, validation_tickets)
    finally:
        runner.close()
    trajectories = [trajectory for group in groups for trajectory in group.trajectories]
    unequal = [len(set(group.rewards)) > 1 for group in groups if group.trajectories]
    valid = [turn.valid for trajectory in trajectories for turn in trajectory.replies]
    return Measurement(success_rate(trajectories), sum(unequal) / len(unequal), sum(valid) / max(len(valid), 1))


async def _play(
    runner: Runner, engines: Engines, groups_to_play: Sequence[Ticket], on_group: OnGroup = lambda group: None
) -> list[Group]:
    """Play the tickets; raise `TrainingStopped` if every episode fails, the environment hangs, or the engine fails."""
    # An engine tells episodes apart by the numbers of their tickets, and episodes in training go on meanwhile.
    own_tickets = [replace(ticket, number=-1 - ticket.number) for ticket in groups_to_play]
    # The deadline of a reply includes the wait for a slot, so no more episodes are played than an engine has.
    try:
        groups = await evaluate(runner, own_tickets, concurrency=engines.slots, on_group=on_group)
    except IncompleteEvaluation as error:
        raise TrainingStopped(f"{error}, while {own_tickets[0].split} tasks were played") from None
    except BaseException as error:
        if reason := stop_reason(error):
            raise TrainingStopped(reason) from None
        raise
    if engines.failure:  # the episodes that had ended by then are a biased sample
        raise TrainingStopped(engines.failure.line)
    if not any(group.trajectories for group in groups):
        split = groups_to_play[0].split
        raise TrainingStopped(f"every {split} episode fails: {groups[0].errored[-1].failure}")
    return groups


def success_rate(trajectories: Sequence[Trajectory]) -> float:
    """Return the share of `trajectories` that succeeded, in [0, 1]. There must be at least one."""
    return sum(trajectory.success for trajectory in trajectories) / len(trajectories)


def success_by_seat(trajectories: Sequence[Trajectory]) -> str:
    """Return the success of each seat as text, in brackets; "" with one agent."""
    metrics = seat_metrics(trajectories)
    rates = [f"{key.split('/')[1]} {value:.3f}" for key, value in metrics.items() if key.endswith("/success")]
    return f" ({', '.join(rates)})" if rates else ""


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
