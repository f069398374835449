"""Plain lines that say how far a phase is, for output that is no terminal, such as the log of a job."""

from __future__ import annotations

import time
from collections.abc import Callable

from rl.records import Group

INTERVAL_S = 30.0  # between two lines


class ProgressLines:
    """Calls `write` with a line about the phase `name` every `INTERVAL_S` seconds in which something was reported.

    `clock` returns seconds, as `time.monotonic` does.
    """

    def __init__(self, name: str, write: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self.name, self._write, self._clock = name, write, clock
        self._start_s = self._last_s = clock()
        self._groups = self._episodes = self._successes = 0

    def report(self, state: str) -> None:
        """Write `state` with the seconds since the start, unless the last line is too recent."""
        now_s = self._clock()
        if now_s - self._last_s >= INTERVAL_S:
            self._last_s = now_s
            self._write(f"{self.name}: {state}, {now_s - self._start_s:.0f} s")

    def count(self, group: Group, total: int) -> None:
        """Report one more group that ended, of `total`."""
        self._groups += 1
        self._episodes += len(group.trajectories)
        self._successes += sum(trajectory.success for trajectory in group.trajectories)
        success = f", success {self._successes / self._episodes:.3f}" if self._episodes else ""
        self.report(f"{self._groups} of {total} tasks{success}")
