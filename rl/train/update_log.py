"""What an update leaves behind: its rollouts, its metrics, a line on the screen and, when one is due, a checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite

from rl.learner.diagnostics import list_warnings
from rl.records import Group
from rl.settings import Settings
from rl.train.checkpoint import Checkpointer
from rl.train.console import Console
from rl.train.credit.advice import Advice
from rl.train.loggers.logger import Loggers
from rl.train.storage.rollout_files import select_groups


class UpdateLog:
    """Writes what `Loop.on_update` hands over, into the folder of the run and to its loggers."""

    def __init__(
        self,
        settings: Settings,
        checkpointer: Checkpointer,
        loggers: Loggers,
        console: Console,
        advice: Advice,
        engine_metrics: Callable[[], dict[str, float]] = dict,
    ) -> None:
        """Take the parts of the run; its folder is the checkpointer's. `engine_metrics` is called at each update."""
        self.advice, self.engine_metrics = advice, engine_metrics
        self.settings, self.checkpointer, self.loggers, self.console = settings, checkpointer, loggers, console

    def on_update(self, metrics: dict[str, float], groups: list[Group]) -> None:
        """Log an update, and save a checkpoint if one is due by `--save-every` or `--save-minutes`.

        Raises `UserError` if the disk is full or read-only.
        """
        metrics |= self.engine_metrics()
        s, folder, update = self.settings, self.checkpointer.folder, int(metrics["update"])
        if selection := select_groups(groups, s.rollouts, s.seed, update):
            folder.write_rollouts(update, selection)
        folder.log(metrics)
        self.loggers.log(update, {name: value for name, value in metrics.items() if isfinite(value)})
        warnings = list_warnings(metrics, s.lag, compares_members=self.advice.compares_members)
        self.console.update(metrics, warnings)
        if line := self.advice.add(metrics):
            self.console.say(f"advice: {line}")
        self.checkpointer.record()
        if update % s.save_every == 0 or self.checkpointer.seconds_since_save() >= 60 * s.save_minutes:
            self.loggers.flush()
            self.checkpointer.save()
