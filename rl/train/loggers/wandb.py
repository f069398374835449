"""Weights & Biases. Needs the extra `wandb`; `WANDB_MODE=offline` keeps everything in the run's folder `wandb/`.

Project, entity and tags come from wandb's own variables (`WANDB_PROJECT`, `WANDB_ENTITY`, `WANDB_TAGS`).
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping

from rl.policy.extras import require
from rl.train.loggers.logger import RunInfo
from rl.train.storage.durable_files import replace_file

PACKAGE = "wandb"


class Logger:
    """A run of Weights & Biases with the settings as its config. A resumed run continues the same one."""

    def __init__(self, run: RunInfo) -> None:
        """Begin the run, or continue it. Raises what `wandb.init` raises, such as for a missing login."""
        wandb = require(PACKAGE, PACKAGE)
        (run.path / "wandb").mkdir(exist_ok=True)
        id_file = run.path / "wandb" / "run-id"
        if not id_file.is_file():
            replace_file(id_file, uuid.uuid4().hex[:12].encode())
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT") or "turnwise",
            name=os.environ.get("WANDB_NAME") or run.path.name,
            id=id_file.read_text(encoding="utf-8").strip(),
            dir=str(run.path),
            config=dict(run.config),
            resume="allow",
        )
        self._run.define_metric("*", step_metric="update")  # wandb's own step cannot go back after a resume

    def log(self, update: int, metrics: Mapping[str, float]) -> None:
        """Send the metrics of one update."""
        self._run.log({**metrics, "update": update})

    def flush(self) -> None:
        """Do nothing: another process has what was logged already, and outlives this one."""

    def close(self, results: Mapping[str, float]) -> None:
        """Put the results into the run's summary and end the run."""
        self._run.summary.update(dict(results))
        self._run.finish(exit_code=0 if results else 1)
