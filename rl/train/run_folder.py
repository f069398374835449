"""The folder of a run: settings, metrics, rollouts and checkpoints, safe against a kill at any moment.

A checkpoint is written under a temporary name, with the digests of its files, and then renamed; `checkpoints/latest` is
switched last. A resumed run first removes (`rewind`) what was written after its checkpoint: those updates come again.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import platform
import shutil
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from rl import checksums
from rl.cli import UserError
from rl.config_file import refuse_run
from rl.records import Group
from rl.rollout.image_files import ImageFiles
from rl.rollout.jsonl import lines
from rl.train.storage import metrics_file, rollout_files
from rl.train.storage.durable_files import disk_errors, remove_folder, replace_file, sync
from rl.train.storage.state_file import STATE, TENSORS, StateSnapshot, read_state, write_state

MAX_CHECKPOINTS = 2  # older ones are removed


class RunFolder:
    """Reads and writes the folder of one run. Methods that write raise `UserError` if the disk is full or read-only."""

    def __init__(self, path: Path) -> None:
        """Refer to the folder at `path`, without reading or locking it; see `create` and `open_existing`."""
        self.path = path
        self._images = ImageFiles(path / "rollouts" / "images")
        self._lock_file: int | None = None
        self._metrics_fingerprint: Mapping[str, Any] | None = None  # of the checkpoint that was loaded

    @classmethod
    def create(cls, path: Path, config: str, *, subfolders: Sequence[str] = ()) -> RunFolder:
        """Create and lock the folder of a new run.

        Args:
            path: The folder, which may exist if it holds no run.
            config: Text of `config.toml`.
            subfolders: Names of the folders that the run will write with `write_folder`; they must not exist yet.

        Raises:
            UserError: There is a run or one of `subfolders` already, or the folder cannot be written.

        """
        refuse_run(path)
        for name in subfolders:
            if (path / name).exists():
                raise UserError(f"--out {path}: there is a {name}/ already, which the run would write; choose another")
        folder = cls(path)
        with disk_errors(f"--out {path}"):
            for name in ("rollouts", "checkpoints"):
                (path / name).mkdir(parents=True, exist_ok=True)
            folder.lock()
            replace_file(path / "config.toml", checksums.seal(config).encode())
        return folder

    @classmethod
    def open_existing(cls, path: Path) -> RunFolder:
        """Return the folder of an existing run, not locked. Raises `UserError` if there is none at `path`."""
        if not (path / "config.toml").is_file():
            raise UserError(f"--resume: no run in {path} (it has no config.toml); leave out --resume to begin one")
        return cls(path)

    def lock(self) -> None:
        """Keep other processes from training this run until `close` or the end of this process, a kill included.

        Raises `UserError` if another process has locked it. On a file system without locks, nothing is locked.
        """
        path = self.path / ".lock"
        with disk_errors(str(path)):
            lock_file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            # Not `flock`: its lock would live on in forked children of a killed process.
            fcntl.lockf(lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            holder = os.read(lock_file, 200).decode(errors="replace").strip() or "another process"
            os.close(lock_file)
            raise UserError(f"--out {self.path}: {holder} is training this run; wait for its end, or stop it") from None
        except OSError:
            os.close(lock_file)
            return
        self._lock_file = lock_file
        with disk_errors(str(path)):
            os.truncate(lock_file, 0)
            os.write(lock_file, f"process {os.getpid()} on {platform.node()}\n".encode())

    def log(self, metrics: Mapping[str, float]) -> None:
        """Append the metrics of one update, by name, to `metrics.jsonl`.

        `update`, the update's number, must be among them. A number that is not finite is null in the file.
        """
        values = {key: (value if math.isfinite(value) else None) for key, value in metrics.items()}
        path = self.path / "metrics.jsonl"
        with self.disk_errors(path), open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(values) + "\n")

    def write_rollouts(self, update: int, groups: Iterable[Group]) -> None:
        """Write the trajectories of one update to `rollouts/update-000012.jsonl`, one per line, group by group."""
        with self.disk_errors(self.path / "rollouts" / f"update-{update:06d}.jsonl"):
            text = "".join(line + "\n" for line in lines(update, self._env, groups, self._images.store))
            rollout_files.write(self.path / "rollouts", update, text)

    def write_config(self, config: str) -> None:
        """Write `config`, TOML text, to `config.toml` with its digest, unless it has this text already."""
        path, text = self.path / "config.toml", checksums.seal(config)
        if path.read_text(encoding="utf-8") != text:
            with self.disk_errors(path):
                replace_file(path, text.encode())

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        """Write `summary`, which must be JSON-serialisable, to `summary.json`, in place of an older one."""
        with self.disk_errors(path := self.path / "summary.json"):
            replace_file(path, (json.dumps(summary, indent=2) + "\n").encode())

    def close(self) -> None:
        """Release the lock."""
        if self._lock_file is not None:
            os.close(self._lock_file)
            self._lock_file = None

    def metrics_fingerprint(self) -> dict[str, Any]:
        """Return length and digest of `metrics.jsonl` as it is now, for a checkpoint."""
        return metrics_file.fingerprint(self.path / "metrics.jsonl")

    def save_checkpoint(
        self, update: int, save_model: Callable[[Path], None], state: StateSnapshot, config: str
    ) -> None:
        """Write `checkpoints/update-N`, point `latest` at it, and remove all but the last `MAX_CHECKPOINTS`.

        If it is the latest checkpoint already, nothing is written.

        Args:
            update: Number of updates that the checkpoint contains.
            save_model: Writes the model into the folder that it is given.
            state: The trainer's state, with `metrics_fingerprint` under "metrics"; written to `trainer/`.
            config: The text of `config.toml`, of which `trainer/` gets a copy.

        """
        checkpoints = self.path / "checkpoints"
        name = f"update-{update:06d}"
        if self.has_checkpoint(update):
            return
        partial = checkpoints / f".{name}.partial"
        try:
            with self.disk_errors(checkpoints / name):
                for leftover in checkpoints.glob(".update-*"):  # of a run that was killed here
                    shutil.rmtree(leftover)
                (partial / "trainer").mkdir(parents=True)
                save_model(partial / "model")
                (partial / "trainer" / "config.toml").write_text(checksums.seal(config), encoding="utf-8")
                write_state(partial / "trainer", state)
                checksums.write(partial)
                for path in (*partial.rglob("*"), partial):
                    sync(path)
                partial.rename(checkpoints / name)
                link = checkpoints / ".latest.partial"
                link.unlink(missing_ok=True)
                link.symlink_to(name)
                link.replace(checkpoints / "latest")
                sync(checkpoints)
        except UserError:
            shutil.rmtree(partial, ignore_errors=True)
            raise
        best = self._best_name()
        for old in self._checkpoints()[:-MAX_CHECKPOINTS]:
            if old.name != best:
                remove_folder(old)

    def mark_best(self, update: int | None) -> None:
        """Point `checkpoints/best`, which is never removed, at the checkpoint of this update; at none for None.

        Without such a checkpoint it points at none.
        """
        checkpoints = self.path / "checkpoints"
        link = checkpoints / "best"
        name = "" if update is None else f"update-{update:06d}"
        with self.disk_errors(link):
            if not name or not (checkpoints / name).is_dir():
                link.unlink(missing_ok=True)
                return
            partial = checkpoints / ".best.partial"
            partial.unlink(missing_ok=True)
            partial.symlink_to(name)
            partial.replace(link)
            sync(checkpoints)

    def _best_name(self) -> str:
        link = self.path / "checkpoints" / "best"
        return link.readlink().name if link.is_symlink() else ""

    def write_folder(self, name: str, write: Callable[[Path], None]) -> Path:
        """Let `write` fill the subfolder `name`, completely or not at all, and add digests; return its path.

        An existing folder of that name is replaced; this run wrote it before it was killed without a checkpoint.
        """
        target, partial = self.path / name, self.path / f".{name}.partial"
        try:
            with self.disk_errors(target):
                for leftover in (partial, target):
                    shutil.rmtree(leftover, ignore_errors=True)
                write(partial)
                checksums.write(partial)
                for path in (*partial.rglob("*"), partial):
                    sync(path)
                partial.rename(target)
                sync(self.path)
        except UserError:
            shutil.rmtree(partial, ignore_errors=True)
            raise
        return target

    def num_updates(self) -> int:
        """Return the number of updates in the checkpoint that the run would be resumed from, 0 without one."""
        latest = self.latest_checkpoint()
        return int(latest.name.removeprefix("update-")) if latest else 0

    def latest_checkpoint(self) -> Path | None:
        """Return the folder of the checkpoint to resume from, or None if there is no complete one."""
        link = self.path / "checkpoints" / "latest"
        if link.is_dir():
            return link.resolve()
        checkpoints = self._checkpoints()  # the link does not exist yet, or its target was removed
        return checkpoints[-1].resolve() if checkpoints else None

    def has_checkpoint(self, update: int) -> bool:
        """Whether the latest checkpoint is the one of this update."""
        latest = self.latest_checkpoint()
        return latest is not None and latest.name == f"update-{update:06d}"

    def load_state(self) -> dict[str, Any] | None:
        """Return what `save_checkpoint` stored as `state`, from the latest checkpoint; None without one.

        Its tensors are in the CPU's memory. Raises `UserError` if it is damaged. Call `check_checkpoint` before.
        """
        checkpoint = self.latest_checkpoint()
        if checkpoint is None:
            return None
        try:
            state = read_state(checkpoint / "trainer")
        except Exception as error:
            part = TENSORS if isinstance(error, SafetensorError) else STATE
            reason = f"its trainer/{part} is damaged ({type(error).__name__})"
            raise self.checkpoint_error(checkpoint, reason) from error
        self._metrics_fingerprint = state.pop("metrics", None)
        return state

    def check_checkpoint(self, checkpoint: Path) -> bool:
        """Compare the files of a checkpoint with their digests; return False if it has none.

        Raises `UserError` if one is missing or damaged, or if the version of this package that wrote the checkpoint is
        too old.
        """
        if (checkpoint / "trainer" / "state.pt").is_file():
            reason = f"its state.pt is of version 0.1.0; --model {checkpoint} begins a new run with its weights"
            raise self.checkpoint_error(checkpoint, reason, suggest_older=False)
        try:
            return checksums.check(checkpoint)
        except checksums.DamagedFile as error:
            raise self.checkpoint_error(checkpoint, str(error)) from None

    def unsigned_files(self) -> list[str]:
        """Return a line for each file or folder that `--resume` reads and that has no digest to check it by."""
        config, checkpoint = self.path / "config.toml", self.latest_checkpoint()
        paths = [] if checksums.check_seal(config.read_text(encoding="utf-8")) else [config]
        if checkpoint and not (checkpoint / checksums.NAME).is_file():
            paths.append(checkpoint)
        return [f"{path} has no digest, as in older versions; damage to it is not noticed" for path in paths]

    def checkpoint_error(self, checkpoint: Path, reason: str, *, suggest_older: bool = True) -> UserError:
        """Return the error to raise if the run cannot continue from `checkpoint`.

        Its message suggests the checkpoint before it, if there is one and `suggest_older` says that it could work.
        """
        older = [path.name for path in self._checkpoints() if path.name < checkpoint.name]
        hint = f"; remove this folder to go on from {older[-1]}" if older and suggest_older else ""
        return UserError(f"checkpoint {checkpoint} cannot be used: {reason}{hint}")

    def rewind(self, update: int) -> list[str]:
        """Remove the metrics, rollouts and checkpoints of all updates after `update`.

        Returns one line for each file that is damaged and was read for this.
        """
        path = self.path / "metrics.jsonl"
        with self.disk_errors(path):
            notes = metrics_file.rewind(path, update, self._metrics_fingerprint)
        with self.disk_errors(self.path / "rollouts"):
            notes += rollout_files.rewind(self.path / "rollouts", update)
        last = f"update-{update:06d}"
        for checkpoint in self._checkpoints():
            if checkpoint.name > last:
                remove_folder(checkpoint)
        return notes

    @cached_property
    def _env(self) -> str:
        """The environment's id, which every line of rollouts names, so that files of several runs can be joined."""
        return str(tomllib.loads((self.path / "config.toml").read_text(encoding="utf-8")).get("env", ""))

    def _checkpoints(self) -> list[Path]:
        """Return every complete checkpoint, oldest first."""
        return sorted(path for path in (self.path / "checkpoints").glob("update-*") if path.is_dir())

    def disk_errors(self, path: Path) -> AbstractContextManager[None]:
        """Context that turns errors of writing `path` into a `UserError` that says how to go on."""
        return disk_errors(f"{path}", f" and continue with --resume --out {self.path}")
