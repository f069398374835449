"""What a run shows on the terminal: one live line where there is a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence

from rl.settings import Settings

BARS = "▁▂▃▄▅▆▇█"


def arithmetic(s: Settings, model: str, tasks: int, max_turns: int) -> str:
    """What one update of a run with resolved settings will be, in two lines."""
    steps = s.epochs * s.minibatches
    return (
        f"{s.env}, {s.algo}, {model}, {tasks} training tasks\n"
        f"{s.groups} groups x {s.size} episodes x at most {max_turns} turn{'s' if max_turns > 1 else ''} -> "
        f"{s.episodes} episodes, {steps} optimiser step{'s' if steps > 1 else ''} per update, {s.updates or 0} updates"
    )


class Screen:
    """The progress of one run of `total` updates."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.live = sys.stdout.isatty()
        self.began = time.monotonic()
        self.rewards: list[float] = []
        self.told: set[str] = set()

    def say(self, line: str) -> None:
        """A line that stays."""
        self._clear()
        print(line, flush=True)

    def warming(self, passes: int, success: float) -> None:
        """Progress of the cold start."""
        if self.live:
            self._show(f"cold start: {passes} passes, validation success {success:.2f}")

    def update(self, metrics: Mapping[str, float], warnings: Sequence[str]) -> None:
        """One update is done."""
        self.rewards.append(metrics["reward/mean"])
        for warning in warnings:
            kind = warning.split(" ", 3)[-1]
            if kind not in self.told:
                self.told.add(kind)
                self.say(f"warning: {warning}")
        n = int(metrics["update"])
        if not self.live and n % max(1, self.total // 20) and n != self.total:
            return
        line = (
            f"update {n:>{len(str(self.total))}}/{self.total}  reward {metrics['reward/mean']:.3f} {self._curve()}  "
            f"success {metrics['success/mean']:.3f}  entropy {metrics.get('entropy', 0.0):.2f}  "
            f"{metrics['tokens/sampled'] / max(metrics['time/update_s'], 1e-9):,.0f} tok/s  "
            f"{time.monotonic() - self.began:.0f} s"
        )
        if self.live and n != self.total:
            self._show(line)
        else:
            self.say(line)

    def _curve(self) -> str:
        """The run's rewards so far in twelve characters, from the lowest possible seen to the highest."""
        n = len(self.rewards)
        cells = min(12, n)
        cut = [self.rewards[i * n // cells : (i + 1) * n // cells] for i in range(cells)]
        means = [sum(part) / len(part) for part in cut]
        low, high = min(0.0, *means), max(1.0, *means)
        return "".join(BARS[round((mean - low) / (high - low) * (len(BARS) - 1))] for mean in means)

    def _show(self, line: str) -> None:
        print(f"\r\x1b[2K{line}", end="", flush=True)

    def _clear(self) -> None:
        if self.live:
            print("\r\x1b[2K", end="")
