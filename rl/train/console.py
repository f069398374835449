"""What a training run prints: one live line on a terminal, an occasional plain line elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence

from rl.evaluate.progress_lines import ProgressLines
from rl.records import Group
from rl.settings import Settings
from rl.spec_paths import as_typed
from rl.train import imitation

BARS = "▁▂▃▄▅▆▇█"


def describe_run(s: Settings, model: str, tasks: int, max_turns: int) -> str:
    """Return lines that say what is trained on what, how many episodes and steps one update has, and how it computes.

    `s` comes from `Settings.with_defaults`, `model` describes the model, `tasks` counts the training tasks.
    """
    steps = s.epochs * (s.minibatches or 1)
    ways = [
        "activations are recomputed in the backward pass" if s.checkpoint_activations else "",
        f"sampling goes on while the learner computes, up to {s.lag} updates ahead" if s.overlap else "",
        s.description() if s.mode or s.over_provision > 1 or s.order != "admission" else "",
    ]
    return (
        f"{s.env}, {s.algo}, {model}, {tasks} training tasks\n"
        f"{s.groups} groups x {s.size} episodes x at most {max_turns} turn{'s' if max_turns > 1 else ''} -> "
        f"{s.episodes} episodes, {steps} optimiser step{'s' if steps > 1 else ''} per update, {s.updates or 0} updates"
        + "".join(f"\n{way}" for way in ways if way)
    )


class Console:
    """Prints the progress of a run of `total_updates` updates."""

    def __init__(self, total_updates: int) -> None:
        self.total_updates = total_updates
        self.is_terminal = sys.stdout.isatty()
        self.start_time = time.monotonic()
        self.rewards: list[float] = []
        self.warning_kinds: set[str] = set()  # each kind is printed once per run
        self._last_line = ""  # of an update, if it has not been printed to stay
        self._cold_start = ProgressLines("cold start", self.say)

    def say(self, line: str) -> None:
        """Print a line that stays."""
        self._clear()
        print(as_typed(line), flush=True)

    def ended(self, update: int, reason: str) -> None:
        """Tell why the run ended after `update` updates, where it has not made all of them."""
        if reason and update < self.total_updates:
            self._say_last_line()
            self.say(f"ended after update {update} by {reason}")

    def _say_last_line(self) -> None:
        """Print the line of the last update, unless it stands there."""
        if self._last_line:
            self.say(self._last_line)
        self._last_line = ""

    def cold_start(self, progress: imitation.Progress, measurement: imitation.Measurement) -> None:
        """Show how far imitation has come and how the model does when sampled.

        Where output is no terminal, a line is printed from time to time.
        """
        state = f"{progress.episodes} oracle episodes in {progress.steps} steps; {measurement}"
        if self.is_terminal:
            self._show(f"cold start: {state}")
        else:
            self._cold_start.report(state)

    def greedy_groups(self, split: str, total: int) -> Callable[[Group], None]:
        """Return a function to call with each group that ended of `total` tasks of a split, played greedily.

        Where output is no terminal, a line is printed from time to time.
        """
        lines = ProgressLines(f"{split} tasks", lambda line: None if self.is_terminal else self.say(line))
        return lambda group: lines.count(group, total)

    def update(self, metrics: Mapping[str, float], warnings: Sequence[str]) -> None:
        """Show the metrics of an update, and those of its warnings whose kind has not been printed yet.

        `metrics` are by name; `update`, `reward/mean`, `success/mean`, `tokens/sampled` and `time/update_s` must be
        among them. `warnings` are lines of `list_warnings`; lines that agree from their fourth word on are of one kind.
        Where output is no terminal, about one update in twenty is printed.
        """
        n = int(metrics["update"])
        self.rewards.append(metrics["reward/mean"])
        for warning in warnings:
            kind = warning.split(" ", 3)[-1]
            if kind not in self.warning_kinds:
                self.warning_kinds.add(kind)
                self.say(f"warning in update {n}: {warning}")
        line = (
            f"update {n:>{len(str(self.total_updates))}}/{self.total_updates}  "
            f"reward {metrics['reward/mean']:.3f} {self._reward_curve()}  "
            f"success {metrics['success/mean']:.3f}  entropy {metrics.get('entropy', 0.0):.2f}  "
            f"{metrics['tokens/sampled'] / max(metrics['time/update_s'], 1e-9):,.0f} tok/s  "
            f"{time.monotonic() - self.start_time:.0f} s"
        )
        counts = {
            "demonstrated": "demonstrations, not the policy's",
            "policy_faults": "policy faults",
            "errored": "errored",
        }
        for key, what in counts.items():
            if count := metrics.get(f"episodes/{key}"):
                line += f"  {count:.0f} {what}"
        self._last_line = line
        if self.is_terminal and n != self.total_updates:
            self._show(line)
        elif n % max(1, self.total_updates // 20) == 0 or n == self.total_updates:
            self._say_last_line()

    def _reward_curve(self) -> str:
        """Draw the rewards so far in at most twelve characters, on a scale that includes 0 and 1."""
        n = len(self.rewards)
        cells = min(12, n)
        chunks = [self.rewards[i * n // cells : (i + 1) * n // cells] for i in range(cells)]
        means = [sum(chunk) / len(chunk) for chunk in chunks]
        low, high = min(0.0, *means), max(1.0, *means)
        return "".join(BARS[round((mean - low) / (high - low) * (len(BARS) - 1))] for mean in means)

    def _show(self, line: str) -> None:
        """Replace the live line of the terminal."""
        print(f"\r\x1b[2K{line}", end="", flush=True)

    def _clear(self) -> None:
        if self.is_terminal:
            print("\r\x1b[2K", end="")
