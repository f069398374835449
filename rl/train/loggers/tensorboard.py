"""TensorBoard: event files in the run's folder `tb/`. The default logger."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rl.cli import UserError
from rl.train.loggers.logger import RunInfo
from rl.train.storage.durable_files import disk_errors

RESULTS = ("success_before", "success_after", "reward/mean")  # columns of the HPARAMS page beside the settings


class Logger:
    """Writes scalars, and the settings as hyperparameters, to `tb/`. Raises `UserError` if the disk is full."""

    def __init__(self, run: RunInfo) -> None:
        """Remember the run; the first event opens the file, because a run may be refused before it begins.

        Raises `UserError` if there is a file in place of the folder.
        """
        self._run = run
        self._folder = run.path / "tb"
        self._writer: Any = None
        self._last: dict[str, float] = {}
        self._way_on = f" and continue with --resume --out {run.path}"
        if self._folder.exists() and not self._folder.is_dir():
            raise UserError(f"{self._folder}: is a file, and TensorBoard's folder has this name; move it away")

    def log(self, update: int, metrics: Mapping[str, float]) -> None:
        """Add one scalar per metric. Events of later updates that an earlier process wrote are hidden."""
        with disk_errors(str(self._folder), self._way_on):
            self._add(metrics, update)
        self._last.update(metrics)

    def flush(self) -> None:
        """Write what is buffered."""
        if self._writer is not None:
            with disk_errors(str(self._folder), self._way_on):
                self._writer.flush()

    def close(self, results: Mapping[str, float]) -> None:
        """Write the results as metrics of the hyperparameters, and close the file."""
        if self._writer is None:
            return
        with disk_errors(str(self._folder), self._way_on):
            self._add(results, int(self._last.get("update", self._run.update)))
            self._writer.close()

    def _add(self, values: Mapping[str, float], update: int) -> None:
        """Write one event that holds all values: `add_scalar` would write an event for each."""
        from tensorboard.compat.proto.summary_pb2 import Summary

        scalars = [Summary.Value(tag=key, simple_value=float(value)) for key, value in values.items()]
        self._open(update).file_writer.add_summary(Summary(value=scalars), update)

    def _open(self, update: int) -> Any:
        if self._writer is None:
            from torch.utils.tensorboard import SummaryWriter
            from torch.utils.tensorboard.summary import hparams

            self._writer = SummaryWriter(str(self._folder), purge_step=update)
            # `SummaryWriter.add_hparams` would write them into a subfolder, as a run of its own.
            settings = {name: _hyperparameter(value) for name, value in self._run.config.items()}
            experiment, session_start, session_end = hparams(settings, dict.fromkeys(RESULTS, 0.0))
            for summary in (experiment, session_start, session_end):
                self._writer.file_writer.add_summary(summary)
        return self._writer


def _hyperparameter(value: Any) -> bool | int | float | str:
    return value if isinstance(value, (bool, int, float)) else str(value)
