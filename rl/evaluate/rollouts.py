"""The episodes of an evaluation, written beside its result: the format of training's rollouts, for `rl.view`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from rl.cli import one_line
from rl.evaluate.attempts import Choice
from rl.records import Group, Trajectory
from rl.rollout.image_files import ImageFiles
from rl.rollout.jsonl import lines

ENDING = ".rollouts.jsonl"


def rollouts_path(result: str | Path) -> Path:
    """Return the file of rollouts that belongs to a result: `floor.rollouts.jsonl` beside `floor.json`."""
    path = Path(result)
    return path.with_name(f"{path.name.removesuffix('.json')}{ENDING}")


class EpisodeLog:
    """Writes the episodes of an evaluation as they end: each group to a partial file, in the end all to the final one.

    The partial file, `floor.partial.rollouts.jsonl` beside `floor.json`, holds the groups in the order in which they
    ended, so that an evaluation that is interrupted or killed leaves all groups that were complete. `write` replaces it
    by the file of `rollouts_path`, in the order of the tasks; that one is complete or absent. Episodes have the update
    0. Nothing is written beside a result that is no regular file, such as a pipe.

    The first failure to write ends the log; `error` is then one line about it. The result is worth having without it.

    Args:
        result: The file of the evaluation's result, None to write nothing.
        name: Returns the name of a group's environment.
    """

    def __init__(self, result: Path | None, name: Callable[[Group], str]) -> None:
        self.name, self.error = name, ""
        self._is_open = result is not None and (result.is_file() or not result.exists())
        self.path = rollouts_path(result or "none")
        self.partial = self.path.with_name(f"{self.path.name.removesuffix(ENDING)}.partial{ENDING}")
        self._images = ImageFiles(self.path.with_name(f"{self.path.name.removesuffix(ENDING)}.images"))
        if self._is_open:
            self._attempt(lambda: self.partial.unlink(missing_ok=True))  # of an earlier evaluation

    def add(self, group: Group) -> None:
        """Append the episodes of a group that has ended to the partial file."""
        if self._is_open:
            self._attempt(lambda: self._append(self.partial, "a", [(self.name(group), group)]))

    def write(self, groups: Sequence[Group]) -> None:
        """Write the episodes of all groups to the final file, and remove the partial one.

        Of an attempt by a test-time strategy, all candidates and judgements are written.
        """
        if not self._is_open:
            return
        whole = self.path.with_name(f".{self.path.name}.partial")

        def write() -> None:
            self._append(whole, "w", [(self.name(group), _all_episodes(group)) for group in groups])
            whole.replace(self.path)
            self.partial.unlink(missing_ok=True)

        self._attempt(write)
        with suppress(OSError):
            whole.unlink(missing_ok=True)

    def _append(self, path: Path, mode: str, groups: Sequence[tuple[str, Group]]) -> None:
        """Write every episode of the groups, each with the name of its environment, as one line of `path`."""
        with open(path, mode, encoding="utf-8", errors="backslashreplace") as file:
            for env, group in groups:
                file.writelines(line + "\n" for line in lines(0, env, [group], self._images.store))

    def _attempt(self, action: Callable[[], None]) -> None:
        try:
            action()
        except OSError as error:
            self._is_open, self.error = False, one_line(error)


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
