"""The episodes of an evaluation, written beside its result: the format of training's rollouts, for `rl.view`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from rl.evaluate.attempts import Choice
from rl.records import Group, Trajectory
from rl.rollout.jsonl import lines


def rollouts_path(result: str | Path) -> Path:
    """Return the file of rollouts that belongs to a result: `floor.rollouts.jsonl` beside `floor.json`."""
    path = Path(result)
    return path.with_name(f"{path.name.removesuffix('.json')}.rollouts.jsonl")


def write_rollouts(path: Path, episodes: Sequence[tuple[str, Group]]) -> None:
    """Write every episode of groups, each with the name of its environment, as one line of `path`.

    Their update is 0. Of an attempt by a test-time strategy, all candidates and judgements are written. The file is
    complete or absent. Raises `OSError` if it cannot be written.
    """
    partial = path.with_name(f".{path.name}.partial")
    try:
        with open(partial, "w", encoding="utf-8", errors="backslashreplace") as file:
            for env, group in episodes:
                file.writelines(line + "\n" for line in lines(0, env, [_all_episodes(group)]))
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _all_episodes(group: Group) -> Group:
    """Return the group with the episodes of each strategy's choice in its place, numbered from 0."""
    if not any(isinstance(trajectory, Choice) for trajectory in group.trajectories):
        return group
    episodes = [episode for trajectory in group.trajectories for episode in _episodes(trajectory)]
    members = [replace(episode, member=number) for number, episode in enumerate(episodes)]
    return Group(group.ticket, members, group.errored)


def _episodes(trajectory: Trajectory) -> Iterator[Trajectory]:
    if isinstance(trajectory, Choice):
        yield from trajectory.candidates
        yield from trajectory.judgements
    else:
        yield trajectory
