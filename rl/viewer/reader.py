"""Finds and reads rollouts: of a run's folder or one file, complete or still being written."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from envs.suggestions import nearest
from rl.rollout.image_files import is_reference, load, with_images
from rl.rollout.jsonl import read_file
from rl.viewer.progress import result

PATTERN = "update-*.jsonl"  # and the same with .gz behind it
EVALUATION, EPISODES = ".json", ".rollouts.jsonl"  # endings of an evaluation's result and of its episodes


class NoSuchUpdateError(ValueError):
    """A run has no rollouts of an update that was asked for."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where rollouts come from.

    Attributes:
        files: JSONL files, oldest first, some of them compressed; at least one.
        run: Folder of the run that they belong to, if there is one.
        config: Settings of that run.
        notes: Problems that a reader of the rollouts should know of, such as a damaged config.toml.

    """

    files: tuple[Path, ...]
    run: Path | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """A name to show: the name of the run's folder, else of the last file."""
        return self.run.resolve().name if self.run else self.files[-1].name

    @property
    def updates(self) -> list[int]:
        """The updates of the run that have a file; empty if a file has no update in its name."""
        numbers = [_update_of(path) for path in self.files]
        return [number for number in numbers if number is not None] if None not in numbers else []


class Rollouts(NamedTuple):
    """Episodes as dicts, one per line of the files and in their order, and notes on what is missing."""

    episodes: list[dict[str, Any]]
    notes: list[str]


def find(path: Path) -> Source:
    """Return where the rollouts at `path` are: a run's folder, its `rollouts` folder, a JSONL file, or an evaluation.

    An evaluation is the result that `rl.evaluate --json` writes; its rollouts stand beside it. No episode is read.
    Raises `ValueError` if there are none.
    """
    if path.is_file():
        episodes = _episodes_of(path)
        file = episodes if path.name.endswith(EVALUATION) and episodes.is_file() else path
        return _source((file,), file.absolute().parent)
    if path.exists() and not path.is_dir():
        raise ValueError(f"{path}: a pipe or a device is not read; name a run's folder or a regular file")
    if not path.is_dir():
        raise ValueError(f"{path}: no such run or file{_suggestion(path)}")
    folder = path / "rollouts" if (path / "rollouts").is_dir() else path
    by_name = {path.name.removesuffix(".gz"): path for path in folder.glob(f"{PATTERN}.gz") if not path.is_dir()}
    by_name |= {path.name: path for path in folder.glob(PATTERN) if not path.is_dir()}
    files = tuple(path for _, path in sorted(by_name.items()))
    if files:
        return _source(files, folder.absolute())
    if (path / "config.toml").is_file():
        is_without = _source((), path).config.get("rollouts") == "none"
        raise ValueError(f"{path}: this run {'was made with --rollouts none' if is_without else 'has no rollouts yet'}")
    runs = sorted(config.parent for config in path.glob("*/config.toml"))
    hint = f"; a run in it is {runs[-1]}" if runs else ""
    raise ValueError(f"{path}: no run (it has neither config.toml nor rollouts/{PATTERN}){hint}")


def read(source: Source, updates: Collection[int] = (), limit: int = 2000) -> Rollouts:
    """Read the last `limit` episodes, only those of the updates numbered in `updates` unless that is empty.

    The oldest group is left out if not all of its members fit. A line that is not an episode is skipped, with a note
    that gives its number, and so are images whose files are missing. Raises `ValueError` if there is no episode, and of
    that kind `NoSuchUpdateError` if one of `updates` has no file, or a file of all updates has none of these.
    """
    files = _files_of_updates(source.files, updates)
    episodes: list[dict[str, Any]] = []  # newest first
    notes: list[str] = []
    missing_images: set[str] = set()
    group_start, is_cut = 0, False  # `episodes[group_start:]` is the group that is being read
    for episode in _read_backwards(files, notes, missing_images):
        if updates and episode.get("update") not in updates:
            continue
        if episodes and _group_key(episode) != _group_key(episodes[-1]):
            group_start = len(episodes)
        if len(episodes) >= limit:
            is_cut = True
            if group_start:
                del episodes[group_start:]
            break
        episodes.append(episode)
    episodes.reverse()
    notes.reverse()
    if not episodes:
        raise _no_episodes(source, updates, notes)
    if is_cut:
        first, last = episodes[0].get("update"), episodes[-1].get("update")
        span = f"update {last}" if first == last else f"updates {first} to {last}"
        notes.insert(0, f"the last {len(episodes)} episodes, of {span}; --limit or --update reads others")
    return Rollouts(episodes, [*source.notes, *notes, *_image_notes(missing_images)])


def _source(files: tuple[Path, ...], folder: Path) -> Source:
    """Return the source of `files`, with the settings of the run if `folder` or its parent is one."""
    run = next((home for home in (folder, folder.parent) if (home / "config.toml").is_file()), None)
    if run is None:
        return Source(files)
    try:
        return Source(files, run, tomllib.loads((run / "config.toml").read_text(encoding="utf-8")))
    except (OSError, ValueError, RecursionError) as error:
        return Source(files, run, notes=(f"config.toml cannot be read: {error}",))


def _suggestion(path: Path) -> str:
    if not path.parent.is_dir():
        return ""
    near = nearest(path.name, [entry.name for entry in path.parent.iterdir()])
    return f"; did you mean {path.parent / near}?" if near else ""


def _files_of_updates(files: Sequence[Path], updates: Collection[int]) -> Sequence[Path]:
    """Return the files of these updates, or all files if `updates` is empty or not every name has an update in it."""
    by_update = {number: path for path in files if (number := _update_of(path)) is not None}
    if not updates or len(by_update) < len(files):
        return files
    for update in updates:
        if update not in by_update:
            first, last = min(by_update), max(by_update)
            of_updates = f"update {last}" if first == last else f"updates {first} to {last}"
            raise NoSuchUpdateError(f"--update {update}: there are rollouts of {of_updates}")
    return [by_update[update] for update in sorted(set(updates))]


def _update_of(path: Path) -> int | None:
    """The update in the name of a file, None without one."""
    match = re.match(r"update-(\d+)\.", path.name)
    return int(match[1]) if match else None


def _read_backwards(files: Sequence[Path], notes: list[str], missing_images: set[str]) -> Iterator[dict[str, Any]]:
    """Yield the episodes from the last to the first.

    What is not an episode is appended to `notes`, and the references to images without a file to `missing_images`.
    """
    for file in reversed(files):
        try:
            content, fault = read_file(file)
        except OSError as error:  # its message may lack the name
            raise ValueError(f"{file}: {(error.strerror or str(error)).lower()}") from None
        lines = content.split(b"\n")
        if fault and not any(line.strip() and not _is_episode(line) for line in lines):  # else those lines are named
            notes.append(fault)
        for number, line in reversed(list(enumerate(lines, 1))):
            if not line.strip():
                continue
            try:
                yield _with_images(_parse_episode(line), file.parent, missing_images)
            except ValueError as error:
                if number == len(lines):  # it does not end with a line break
                    notes.append(f"{file.name}: its last line is incomplete and left out (still being written?)")
                else:
                    notes.append(f"{file.name} line {number} is left out: {error}")


def _is_episode(line: bytes) -> bool:
    try:
        return bool(_parse_episode(line))
    except ValueError:
        return False


def _parse_episode(line: bytes) -> dict[str, Any]:
    """Parse one line. Raises `ValueError` if it is not JSON or lacks what the page relies on."""
    try:
        episode = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON ({error})") from None
    turns = episode.get("turns") if isinstance(episode, dict) else None
    if not isinstance(turns, list) or not all(isinstance(turn, dict) for turn in turns):
        raise ValueError("not an episode (no list of turns)")
    for number, turn in enumerate(turns, 1):
        ids, logprobs = turn.get("ids", []), turn.get("logprobs", [])
        if not (_is_list_of(ids, int) and _is_list_of(logprobs, (int, float)) and len(ids) == len(logprobs)):
            raise ValueError(f"not an episode (the ids of turn {number} do not go with its logprobs)")
    return episode


def _with_images(episode: dict[str, Any], folder: Path, missing_images: set[str]) -> dict[str, Any]:
    """Put the images that stand in files below `folder` into the messages; those without a file keep their reference.

    Raises `ValueError` for an image without URL.
    """

    def data_url(image: str) -> str:
        url = load(image, folder)
        if is_reference(url):
            missing_images.add(url)
        return url

    for part, key in ((episode, "final"), *((turn, "observation") for turn in episode["turns"])):
        messages = part.get(key)
        if not isinstance(messages, list):
            continue
        if any(isinstance(one, dict) and isinstance(one.get("content"), list) for one in messages):
            try:
                part[key] = with_images(messages, data_url)
            except (LookupError, StopIteration):
                raise ValueError("not an episode (an image has no URL)") from None
    return episode


def _is_list_of(values: Any, kind: type | tuple[type, ...]) -> bool:
    return isinstance(values, list) and all(isinstance(value, kind) for value in values)


def _group_key(episode: Mapping[str, Any]) -> tuple[Any, ...]:
    return episode.get("env"), episode.get("update"), episode.get("group")


def _image_notes(references: Collection[str]) -> Iterator[str]:
    """A note for each folder of which images are missing."""
    by_folder: dict[str, list[str]] = {}
    for reference in sorted(references):
        by_folder.setdefault(reference.rpartition("/")[0], []).append(reference)
    for folder, missing in by_folder.items():
        names = missing[0] if len(missing) == 1 else f"{missing[0]} and {len(missing) - 1} more"
        yield f"pictures are missing: {names}; copy the folder {folder} to where the rollouts are"


def _no_episodes(source: Source, updates: Collection[int], notes: Sequence[str]) -> ValueError:
    """The error that says why there is no episode to show."""
    file = source.files[-1]
    where, reason = source.run or file, f"; {notes[0]}" if notes else ""
    episodes = _episodes_of(file)
    if file.name.endswith(EVALUATION) and result(episodes).get("policy"):
        return ValueError(f"{file}: the result of an evaluation; its episodes, {episodes.name}, are missing beside it")
    if source.run and file.absolute().parent == source.run and not source.updates:
        fault = reason if ".jsonl" in file.suffixes else ""  # of another format, no line can be an episode
        return ValueError(f"{file}: a file of a run, without episodes{fault}; name the run's folder, {source.run}")
    if updates and source.updates:
        return ValueError(f"--update {' '.join(map(str, updates))}: no episodes{reason or ' yet'}")
    if updates:
        return NoSuchUpdateError(f"--update {' '.join(map(str, updates))}: no such update in {where}{reason}")
    return ValueError(f"{where}: no episodes{reason or ' yet'}")


def _episodes_of(evaluation: Path) -> Path:
    """The file of episodes that belongs to the result of an evaluation."""
    return evaluation.with_name(evaluation.name.removesuffix(EVALUATION) + EPISODES)
