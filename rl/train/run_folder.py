"""The folder of a run: settings, metrics, rollouts and checkpoints, written so that a kill at any moment loses nothing.

A checkpoint is written aside and renamed; `checkpoints/latest` is switched last. Everything of updates after the
checkpoint that a run resumes from is cut away, because it will be made again.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import platform
import re
import shutil
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError

from rl.cli import UserError
from rl.records import Group
from rl.rollout.jsonl import lines

KEPT = 2  # checkpoints


class RunFolder:
    """Paths and writers of one run. What cannot be written for want of space or rights is a `UserError`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._tensorboard: Any = None
        self._lock: int | None = None

    @classmethod
    def create(cls, path: Path, config: str, *, keeps: Sequence[str] = ()) -> RunFolder:
        """A new run, which will keep folders of the names `keeps` (see `keep`).

        Raises `UserError` where a run is already, or one of these folders, or where nothing can be written.
        """
        if (path / "config.toml").exists():
            raise UserError(
                f"--out {path}: there is a run already; add --resume to continue it, or choose another folder"
            )
        for name in keeps:
            if (path / name).exists():
                raise UserError(f"--out {path}: there is a {name}/ already, which the run would write; choose another")
        folder = cls(path)
        with _writing(f"--out {path}"):
            for part in ("rollouts", "checkpoints"):
                (path / part).mkdir(parents=True, exist_ok=True)
            folder.hold()
            _replace(path / "config.toml", config.encode())
        return folder

    @classmethod
    def existing(cls, path: Path) -> RunFolder:
        """A run that was begun. Raises `UserError` when there is none."""
        if not (path / "config.toml").is_file():
            raise UserError(f"--resume: no run in {path} (it has no config.toml); leave out --resume to begin one")
        return cls(path)

    def hold(self) -> None:
        """Keep other processes from writing to the run until `close`, or until this one ends in whatever way.

        Raises `UserError` if one holds it. Nothing is held where the file system has no locks.
        """
        path = self.path / ".lock"
        with _writing(str(path)):
            lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # not `flock`, which forked children would keep
        except (BlockingIOError, PermissionError):
            holder = os.read(lock, 200).decode(errors="replace").strip() or "another process"
            os.close(lock)
            raise UserError(f"--out {self.path}: {holder} is training this run; wait for its end, or stop it") from None
        except OSError:
            os.close(lock)
            return
        self._lock = lock
        with _writing(str(path)):
            os.truncate(lock, 0)
            os.write(lock, f"process {os.getpid()} on {platform.node()}\n".encode())

    def log(self, metrics: Mapping[str, float]) -> None:
        """Append one update to `metrics.jsonl` and TensorBoard."""
        clean = {key: (value if math.isfinite(value) else None) for key, value in metrics.items()}
        path = self.path / "metrics.jsonl"
        with self._writing(path), open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(clean) + "\n")
        with self._writing(self.path / "tb"):
            if self._tensorboard is None:
                from torch.utils.tensorboard import SummaryWriter

                self._tensorboard = SummaryWriter(str(self.path / "tb"), purge_step=int(metrics["update"]))
            for key, value in clean.items():
                if value is not None:
                    self._tensorboard.add_scalar(key, value, int(metrics["update"]))

    def write_rollouts(self, update: int, groups: Iterable[Group]) -> None:
        """Write the trajectories of one update, one per line, group mates together."""
        text = "".join(line + "\n" for line in lines(update, self._env, groups))
        path = self.path / "rollouts" / f"update-{update:06d}.jsonl"
        with self._writing(path):
            path.write_text(text, encoding="utf-8", errors="backslashreplace")

    def write_config(self, config: str) -> None:
        """Write `config.toml`, if it says anything else now."""
        path = self.path / "config.toml"
        if path.read_text(encoding="utf-8") != config:
            with self._writing(path):
                _replace(path, config.encode())

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        """Write `summary.json`."""
        path = self.path / "summary.json"
        with self._writing(path):
            _replace(path, (json.dumps(summary, indent=2) + "\n").encode())

    def close(self) -> None:
        """Flush what is buffered; what cannot be written any more is lost, as it is in `metrics.jsonl` too."""
        if self._tensorboard is not None:
            with suppress(OSError):
                self._tensorboard.close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def save(self, update: int, save_model: Callable[[Path], None], state: Mapping[str, Any]) -> None:
        """Write `checkpoints/update-N` whole, then point `latest` at it; older ones beyond the last two go.

        Nothing is done where that is the latest already.
        """
        home = self.path / "checkpoints"
        name = f"update-{update:06d}"
        latest = self.latest()
        if latest is not None and latest.name == name:
            return
        aside = home / f".{name}.partial"
        try:
            with self._writing(home / name):
                for left in home.glob(".update-*"):  # by a kill in the middle of this
                    shutil.rmtree(left)
                (aside / "trainer").mkdir(parents=True)
                save_model(aside / "model")
                with open(aside / "trainer" / "state.pt", "wb") as file:
                    torch.save(dict(state), file)
                for path in (*aside.rglob("*"), aside):
                    _sync(path)
                aside.rename(home / name)
                if self._tensorboard is not None:
                    self._tensorboard.flush()
                link = home / ".latest.partial"
                link.unlink(missing_ok=True)
                link.symlink_to(name)
                link.replace(home / "latest")
                _sync(home)
        except UserError:
            shutil.rmtree(aside, ignore_errors=True)
            raise
        for old in self._checkpoints()[:-KEPT]:
            _remove(old)

    def keep(self, name: str, write: Callable[[Path], None]) -> Path:
        """Let `write` fill the folder `name` of the run, whole or not at all; return its path."""
        home, aside = self.path / name, self.path / f".{name}.partial"
        try:
            with self._writing(home):
                for left in (aside, home):  # by a kill, or by this run, killed before its first checkpoint
                    shutil.rmtree(left, ignore_errors=True)
                write(aside)
                for path in (*aside.rglob("*"), aside):
                    _sync(path)
                aside.rename(home)
                _sync(self.path)
        except UserError:
            shutil.rmtree(aside, ignore_errors=True)
            raise
        return home

    def updates(self) -> int:
        """How many updates the checkpoint to resume from has behind it."""
        latest = self.latest()
        return int(latest.name.removeprefix("update-")) if latest else 0

    def latest(self) -> Path | None:
        """The checkpoint to resume from, None when none was finished."""
        link = self.path / "checkpoints" / "latest"
        if link.is_dir():
            return link.resolve()
        whole = self._checkpoints()  # the link is not there yet, or what it names was removed
        return whole[-1].resolve() if whole else None

    def load(self, device: torch.device) -> dict[str, Any] | None:
        """The trainer's state of the latest checkpoint. Raises `UserError` when it is damaged."""
        checkpoint = self.latest()
        if checkpoint is None:
            return None
        try:
            state = torch.load(checkpoint / "trainer" / "state.pt", map_location=device, weights_only=False)
            return dict(state)
        except Exception as error:
            raise self.unusable(checkpoint, f"its trainer/state.pt is damaged ({type(error).__name__})") from error

    def unusable(self, checkpoint: Path, why: str, *, alone: bool = True) -> UserError:
        """The error of a run that cannot go on from `checkpoint`.

        If that `alone` is to blame, it names the one before it, where there is one.
        """
        older = [path.name for path in self._checkpoints() if path.name < checkpoint.name]
        hint = f"; remove it to go on from {older[-1]}" if older and alone else ""
        return UserError(f"checkpoint {checkpoint} cannot be used: {why}{hint}")

    def rewind(self, update: int) -> None:
        """Cut away what was written after `update`: metrics, rollouts and checkpoints."""
        path = self.path / "metrics.jsonl"
        if path.exists():
            kept = [line for line in path.read_text(encoding="utf-8").splitlines() if _update_of(line) <= update]
            with self._writing(path):
                _replace(path, "".join(line + "\n" for line in kept).encode())
        last = f"update-{update:06d}"
        for rollouts in (self.path / "rollouts").glob("update-*.jsonl"):
            if rollouts.stem > last:
                rollouts.unlink()
        for checkpoint in self._checkpoints():
            if checkpoint.name > last:
                _remove(checkpoint)

    @cached_property
    def _env(self) -> str:
        """The environment's id; each line names it, so that files of several runs can be read as one."""
        return str(tomllib.loads((self.path / "config.toml").read_text(encoding="utf-8")).get("env", ""))

    def _checkpoints(self) -> list[Path]:
        """Every whole checkpoint, oldest first."""
        return sorted(path for path in (self.path / "checkpoints").glob("update-*") if path.is_dir())

    def _writing(self, path: Path) -> AbstractContextManager[None]:
        return _writing(f"{path}", f"; make room and continue with --resume --out {self.path}")


def _update_of(line: str) -> float:
    try:
        return json.loads(line)["update"]
    except (ValueError, KeyError, TypeError):
        return math.inf  # a line that a kill cut short


@contextmanager
def _writing(what: str, then: str = "") -> Iterator[None]:
    """Turn the errors of a full or read-only disk into `UserError`; torch and safetensors have their own for it."""
    try:
        yield
    except (OSError, RuntimeError, SafetensorError) as error:
        cause = error if isinstance(error, OSError) else error.__context__
        native = re.search(r"I/O error: (.+) \(os error \d+\)", str(error))
        if not isinstance(cause, OSError) and native is None:
            raise
        reason = (cause.strerror or str(cause)) if isinstance(cause, OSError) else native[1]  # type: ignore[index]
        raise UserError(f"{what}: {reason.lower()}{then}") from error


def _remove(folder: Path) -> None:
    """Remove a folder such that a kill leaves all or nothing of it under its name."""
    aside = folder.with_name(f".{folder.name}.gone")
    folder.rename(aside)
    shutil.rmtree(aside)


def _replace(path: Path, content: bytes) -> None:
    aside = path.with_name(f".{path.name}.partial")
    try:
        aside.write_bytes(content)
        _sync(aside)
        aside.replace(path)
    except OSError:
        aside.unlink(missing_ok=True)
        raise


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
