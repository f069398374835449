"""Evaluation during training (`--eval-every`): when it is due, where its results are, and which checkpoint is the best.

The results are in the run's `evaluations.jsonl`, one object per evaluation. The best checkpoint is derived from them,
so a resumed run needs nothing else: what it did after its checkpoint, it does again.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rl import checksums
from rl.cli import UserError
from rl.records import Trajectory
from rl.train.checkpoint import Checkpointer
from rl.train.rollout_metrics import seat_metrics
from rl.train.storage.durable_files import replace_file


@dataclass(frozen=True)
class Evaluation:
    """One evaluation: `success` in [0, 1] and the mean return of `episodes` greedy episodes on tasks of `split`."""

    update: int
    split: str
    success: float
    return_mean: float
    episodes: int

    @classmethod
    def of(cls, update: int, split: str, trajectories: Sequence[Trajectory]) -> Evaluation:
        """Return the evaluation that played `trajectories`, at least one, after `update` updates."""
        n = len(trajectories)
        success, total = sum(t.success for t in trajectories), sum(t.reward for t in trajectories)
        return cls(update, split, success / n, total / n, n)


class Evaluations:
    """The evaluations of a run on validation tasks, every `interval` updates; none with an interval of 0."""

    def __init__(
        self,
        checkpointer: Checkpointer,
        interval: int,
        log: Callable[[int, Mapping[str, float]], None],
        say: Callable[[str], None],
    ) -> None:
        """Read the evaluations that a resumed run has made. Raises `UserError` if their file is damaged.

        Args:
            checkpointer: Saves the best checkpoints, in the folder of the run.
            interval: Updates between evaluations, 0 for none.
            log: Takes the number of updates so far and metrics, for the run's loggers.
            say: Prints a line.

        """
        self._checkpointer, self._folder = checkpointer, checkpointer.folder
        self._interval, self._log, self._say = interval, log, say
        self._path = self._folder.path / "evaluations.jsonl"
        self._entries = _read(self._path)

    async def evaluate_if_due(self, play: Callable[[], Awaitable[Sequence[Trajectory]]]) -> None:
        """Evaluate with `play`, which plays validation tasks greedily, if it is time to; keep the best checkpoint.

        The checkpointer must have recorded the present progress. If this is cancelled, nothing has happened.
        """
        update = self._checkpointer.progress.update
        if not self.is_due(update):
            return
        trajectories = await play()
        entry = Evaluation.of(update, "val", trajectories)
        best = self.best
        self._entries.append(entry)
        self._write()
        by_seat = {f"eval/{name}": value for name, value in seat_metrics(trajectories).items()}
        self._log(update, {"eval/success": entry.success, "eval/return": entry.return_mean, **by_seat})
        is_best = best is None or entry.success > best.success
        if is_best:
            self._checkpointer.save(then=partial(self._folder.mark_best, update))
        self._say(f"update {update}: validation success {entry.success:.3f}{' (the best so far)' * is_best}")

    def is_due(self, update: int) -> bool:
        """Whether an evaluation belongs after `update` and has not been made."""
        is_planned = self._interval > 0 and update > 0 and update % self._interval == 0
        return is_planned and all(entry.update != update for entry in self._entries)

    @property
    def best(self) -> Evaluation | None:
        """The first evaluation with the highest success, None without any."""
        return max(self._entries, key=lambda entry: (entry.success, -entry.update), default=None)

    def best_success(self) -> float | None:
        """Return the highest success of an evaluation, None without any."""
        return self.best.success if self.best else None

    def rewind(self, update: int) -> None:
        """Forget the evaluations from `update` on, which a run that resumes there makes again.

        That of `update` itself is among them: with `--lag`, episodes that are being played go on meanwhile.
        """
        if any(entry.update >= update for entry in self._entries):
            self._entries = [entry for entry in self._entries if entry.update < update]
            self._write()
        best = self.best
        self._folder.mark_best(best.update if best else None)

    def results(self) -> dict[str, Any]:
        """Return what `summary.json` says of evaluations: `best_update` and `best_success`, None without any."""
        return {"best_update": self.best and self.best.update, "best_success": self.best_success()}

    def _write(self) -> None:
        text = "".join(json.dumps(checksums.seal_object(asdict(entry))) + "\n" for entry in self._entries)
        with self._folder.disk_errors(self._path):
            replace_file(self._path, text.encode())


def _read(path: Path) -> list[Evaluation]:
    if not path.is_file():
        return []
    entries = []
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        try:
            entries.append(Evaluation(**checksums.check_object(json.loads(line))))
        except (ValueError, TypeError, AttributeError) as error:
            raise UserError(
                f"{path} line {number} is damaged ({type(error).__name__}); remove the file to go on without it"
            ) from None
    return entries
