"""Trackio, Hugging Face's local experiment tracker. Needs the extra `trackio`; `trackio show` opens its page.

It writes to `TRACKIO_DIR` on this machine, or to the Space or server that trackio's own variables name.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import redirect_stdout
from io import StringIO

from rl.policy.extras import require
from rl.train.loggers.logger import RunInfo

PACKAGE = "trackio"


class Logger:
    """A run of Trackio with the settings as its config. A resumed run continues the run of the same name."""

    def __init__(self, run: RunInfo) -> None:
        """Begin the run, or continue it if the training run is a resumed one."""
        self._trackio = trackio = require(PACKAGE, PACKAGE)
        with redirect_stdout(StringIO()):  # it prints five lines on how to open its page
            self._run = trackio.init(
                project=os.environ.get("TRACKIO_PROJECT") or "turnwise",
                name=run.path.name,
                config=dict(run.config),
                resume="allow" if run.update else "never",
                embed=False,
            )

    def log(self, update: int, metrics: Mapping[str, float]) -> None:
        """Send the metrics of one update."""
        self._run.log({**metrics, "update": update}, step=update)

    def flush(self) -> None:
        """Do nothing: a thread writes what was logged within a second."""

    def close(self, results: Mapping[str, float]) -> None:
        """Log the results and wait until all is written."""
        with redirect_stdout(StringIO()):
            if results:
                self._run.log(dict(results))
            self._trackio.finish()  # not the run's own `finish`, after which it would end once more at exit
