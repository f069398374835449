"""Finding and reading rollouts: a run's folder or one file, whole or still being written, damaged lines named."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from envs.suggestions import nearest

FILES = "update-*.jsonl"


@dataclass(frozen=True, slots=True)
class Source:
    """Files of rollouts, oldest first, and what the run they belong to says of itself."""

    files: tuple[Path, ...]
    run: Path | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """What to call it: the run's folder, else the file."""
        return self.run.resolve().name if self.run else self.files[-1].name


class Rollouts(NamedTuple):
    """Episodes as their lines say them, in the order of the files, and what a reader of them should know."""

    episodes: list[dict[str, Any]]
    notes: list[str]


def find(path: Path) -> Source:
    """The rollouts at `path`: a run's folder, its `rollouts` folder, or a file. ValueError if there are none."""
    if path.is_file():
        return _source((path,), path.absolute().parent)
    if not path.is_dir():
        raise ValueError(f"{path}: no such run or file{_did_you_mean(path)}")
    folder = path / "rollouts" if (path / "rollouts").is_dir() else path
    files = tuple(sorted(folder.glob(FILES)))
    if files:
        return _source(files, folder.absolute())
    if (path / "config.toml").is_file():
        raise ValueError(f"{path}: this run has no rollouts yet")
    runs = sorted(config.parent for config in path.glob("*/config.toml"))
    hint = f"; a run in it is {runs[-1]}" if runs else ""
    raise ValueError(f"{path}: no run (it has neither config.toml nor rollouts/{FILES}){hint}")


def read(source: Source, updates: Collection[int] = (), limit: int = 2000) -> Rollouts:
    """The last `limit` episodes, of `updates` alone if any are given. A group that does not fit is left out whole.

    A line that is no episode becomes a note with its number. ValueError if no episode is left.
    """
    files = _of_updates(source.files, updates)
    taken: list[dict[str, Any]] = []
    notes: list[str] = []
    start, cut = 0, False  # `taken[start:]` is the group being read, backwards
    for episode in _backwards(files, notes):
        if updates and episode.get("update") not in updates:
            continue
        if taken and _group(episode) != _group(taken[-1]):
            start = len(taken)
        if len(taken) >= limit:
            cut = True
            if start:
                del taken[start:]
            break
        taken.append(episode)
    taken.reverse()
    notes.reverse()
    if not taken:
        raise ValueError(_nothing(source, updates, notes))
    if cut:
        first, last = taken[0].get("update"), taken[-1].get("update")
        which = f"update {last}" if first == last else f"updates {first} to {last}"
        notes.insert(0, f"the last {len(taken)} episodes, of {which}; --limit or --update reads others")
    return Rollouts(taken, [*source.notes, *notes])


def _source(files: tuple[Path, ...], folder: Path) -> Source:
    run = next((home for home in (folder, folder.parent) if (home / "config.toml").is_file()), None)
    if run is None:
        return Source(files)
    try:
        return Source(files, run, tomllib.loads((run / "config.toml").read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        return Source(files, run, notes=(f"config.toml cannot be read: {error}",))


def _did_you_mean(path: Path) -> str:
    if not path.parent.is_dir():
        return ""
    near = nearest(path.name, [entry.name for entry in path.parent.iterdir()])
    return f"; did you mean {path.parent / near}?" if near else ""


def _of_updates(files: Sequence[Path], updates: Collection[int]) -> Sequence[Path]:
    """The files of these updates; all of them where names do not tell."""
    by_update = {int(path.stem.removeprefix("update-")): path for path in files if path.stem[7:].isdecimal()}
    if not updates or len(by_update) < len(files):
        return files
    for update in updates:
        if update not in by_update:
            raise ValueError(f"--update {update}: there are rollouts of updates {min(by_update)} to {max(by_update)}")
    return [by_update[update] for update in sorted(set(updates))]


def _backwards(files: Sequence[Path], notes: list[str]) -> Iterator[dict[str, Any]]:
    """Yield the episodes from the last to the first; what is none goes to `notes`."""
    for file in reversed(files):
        lines = file.read_bytes().split(b"\n")
        for number, line in reversed(list(enumerate(lines, 1))):
            if not line.strip():
                continue
            try:
                yield _episode(line)
            except ValueError as error:
                if number == len(lines):  # no line break after it
                    notes.append(f"{file.name}: its last line is incomplete and left out (still being written?)")
                else:
                    notes.append(f"{file.name} line {number} is left out: {error}")


def _episode(line: bytes) -> dict[str, Any]:
    try:
        episode = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON ({error})") from None
    turns = episode.get("turns") if isinstance(episode, dict) else None
    if not isinstance(turns, list) or not all(isinstance(turn, dict) for turn in turns):
        raise ValueError("not an episode (no list of turns)")
    for number, turn in enumerate(turns, 1):
        ids, logprobs = turn.get("ids", []), turn.get("logprobs", [])
        if not (_are(ids, int) and _are(logprobs, (int, float)) and len(ids) == len(logprobs)):
            raise ValueError(f"not an episode (the ids of turn {number} do not go with its logprobs)")
    return episode


def _are(values: Any, kind: type | tuple[type, ...]) -> bool:
    return isinstance(values, list) and all(isinstance(value, kind) for value in values)


def _group(episode: Mapping[str, Any]) -> tuple[Any, ...]:
    return episode.get("env"), episode.get("update"), episode.get("group")


def _nothing(source: Source, updates: Collection[int], notes: Sequence[str]) -> str:
    where = source.run or source.files[-1]
    if updates:
        return f"--update {' '.join(map(str, updates))}: no such update in {where}"
    return f"{where}: no episodes" + (f"; {notes[0]}" if notes else " yet")
