"""The folder of a run: settings, metrics, rollouts and checkpoints, written so that a kill at any moment loses nothing.

A checkpoint is written aside and renamed; `checkpoints/latest` is switched last. Metrics and rollouts of updates
after the checkpoint that a run resumes from are cut away, because they will be made again.
"""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import torch

from rl.cli import UserError
from rl.records import Group, Trajectory

KEPT = 2  # checkpoints


class RunFolder:
    """Paths and writers of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._tensorboard: Any = None

    @classmethod
    def create(cls, path: Path, config: str) -> RunFolder:
        """A new run. Raises `UserError` where one is already, or where nothing can be written."""
        if (path / "config.toml").exists():
            raise UserError(f"--out {path}: there is a run already; add --resume to continue it, or choose another folder")
        try:
            path.mkdir(parents=True, exist_ok=True)
            (path / "rollouts").mkdir(exist_ok=True)
            (path / "checkpoints").mkdir(exist_ok=True)
            _replace(path / "config.toml", config.encode())
        except OSError as error:
            raise UserError(f"--out {path}: {(error.strerror or str(error)).lower()}") from None
        return cls(path)

    @classmethod
    def existing(cls, path: Path) -> RunFolder:
        """A run that was begun. Raises `UserError` when there is none."""
        if not (path / "config.toml").is_file():
            raise UserError(f"--resume: no run in {path} (it has no config.toml); leave out --resume to begin one")
        return cls(path)

    def log(self, metrics: Mapping[str, float]) -> None:
        """Append one update to `metrics.jsonl` and TensorBoard."""
        clean = {key: (value if math.isfinite(value) else None) for key, value in metrics.items()}
        with open(self.path / "metrics.jsonl", "a", encoding="utf-8") as file:
            file.write(json.dumps(clean) + "\n")
        if self._tensorboard is None:
            from torch.utils.tensorboard import SummaryWriter

            self._tensorboard = SummaryWriter(str(self.path / "tb"), purge_step=int(metrics["update"]))
        for key, value in clean.items():
            if value is not None:
                self._tensorboard.add_scalar(key, value, int(metrics["update"]))

    def write_rollouts(self, update: int, groups: Iterable[Group]) -> None:
        """Write the trajectories of one update, one per line, group mates together."""
        lines = []
        for group in groups:
            for trajectory, reward in zip(group.trajectories, group.rewards, strict=True):
                lines.append(json.dumps(_line(update, group, trajectory, reward), ensure_ascii=False))
            lines += [json.dumps(_line(update, group, t, None), ensure_ascii=False) for t in group.errored]
        path = self.path / "rollouts" / f"update-{update:06d}.jsonl"
        path.write_text("".join(line + "\n" for line in lines), encoding="utf-8", errors="backslashreplace")

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        """Write `summary.json`."""
        _replace(self.path / "summary.json", (json.dumps(summary, indent=2) + "\n").encode())

    def close(self) -> None:
        """Flush what is buffered."""
        if self._tensorboard is not None:
            self._tensorboard.close()

    def save(self, update: int, save_model: Callable[[Path], None], state: Mapping[str, Any]) -> Path:
        """Write `checkpoints/update-N` whole, then point `latest` at it; older ones beyond the last two go."""
        home = self.path / "checkpoints"
        name = f"update-{update:06d}"
        aside = home / f".{name}.partial"
        shutil.rmtree(aside, ignore_errors=True)
        (aside / "trainer").mkdir(parents=True)
        save_model(aside / "model")
        torch.save(dict(state), aside / "trainer" / "state.pt")
        for file in aside.rglob("*"):
            if file.is_file():
                _sync(file)
        if (home / name).exists():  # made by this run before it was resumed from an older one
            shutil.rmtree(home / name)
        aside.rename(home / name)
        link = home / ".latest.partial"
        link.unlink(missing_ok=True)
        link.symlink_to(name)
        link.replace(home / "latest")
        _sync(home)
        for old in sorted(home.glob("update-*"))[:-KEPT]:
            shutil.rmtree(old, ignore_errors=True)
        return home / name

    def latest(self) -> Path | None:
        """The checkpoint to resume from, None when none was finished."""
        link = self.path / "checkpoints" / "latest"
        return link.resolve() if link.exists() else None

    def load(self, device: torch.device) -> dict[str, Any] | None:
        """The trainer's state of the latest checkpoint. Raises `UserError` when it is damaged."""
        checkpoint = self.latest()
        if checkpoint is None:
            return None
        try:
            return torch.load(checkpoint / "trainer" / "state.pt", map_location=device, weights_only=False)
        except Exception as error:
            older = [p.name for p in sorted((self.path / "checkpoints").glob("update-*")) if p.name != checkpoint.name]
            hint = f"; point checkpoints/latest at {older[-1]} to resume from there" if older else ""
            raise UserError(f"checkpoint {checkpoint} is damaged ({type(error).__name__}){hint}") from None

    def rewind(self, update: int) -> None:
        """Cut away what was written after `update`."""
        path = self.path / "metrics.jsonl"
        if path.exists():
            kept = [line for line in path.read_text(encoding="utf-8").splitlines() if _update_of(line) <= update]
            _replace(path, "".join(line + "\n" for line in kept).encode())
        for rollouts in (self.path / "rollouts").glob("update-*.jsonl"):
            if int(rollouts.stem.removeprefix("update-")) > update:
                rollouts.unlink()


def _line(update: int, group: Group, trajectory: Trajectory, shaped: float | None) -> dict[str, Any]:
    ticket = group.ticket
    return {
        "update": update,
        "group": ticket.number,
        "index": ticket.index,
        "split": ticket.split,
        "task": trajectory.task,
        "member": trajectory.member,
        "agent": trajectory.agent,
        "seed": trajectory.seed,
        "version": ticket.version,
        "stop": str(trajectory.stop),
        "success": trajectory.success,
        "reward": trajectory.reward,
        "shaped_reward": shaped,
        "error": trajectory.error,
        "answer": _plain(trajectory.answer),
        "turns": [
            {
                "observation": list(turn.observation),
                "reply": turn.reply,
                "reward": turn.reward,
                "rewards": dict(turn.rewards),
                "state": turn.state,
                "valid": turn.valid,
                "fresh": turn.fresh,
                "finish": turn.completion.finish,
                "context_ids": list(turn.context),
                "ids": list(turn.completion.ids),
                "logprobs": [round(x, 5) for x in turn.completion.logprobs],
                "versions": sorted(set(turn.completion.versions)),
                "metrics": dict(turn.metrics),
                "sample_s": round(turn.sample_s, 4),
                "env_s": round(turn.env_s, 4),
                **{name: [round(float(x), 5) for x in values] for name, values in turn.streams.items()},
            }
            for turn in trajectory.turns
        ],
        "final": list(trajectory.final),
    }


def _plain(answer: Any) -> Any:
    return answer if isinstance(answer, (str, int, float, bool, list, dict, type(None))) else repr(answer)


def _update_of(line: str) -> float:
    try:
        return json.loads(line)["update"]
    except (ValueError, KeyError, TypeError):
        return math.inf  # a line that a kill cut short


def _replace(path: Path, content: bytes) -> None:
    aside = path.with_name(f".{path.name}.partial")
    aside.write_bytes(content)
    _sync(aside)
    aside.replace(path)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
