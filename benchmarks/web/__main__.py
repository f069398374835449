"""Pages in a real browser: against other projects' environments on the same pages, and by the number of contexts.

    python -m benchmarks.web [--rounds 5] [--episodes 40] [--miniwob-python PATH] [--browsergym-python PATH]

Each round plays the same pages of MiniWoB++ with every player in turn, so that all meet the same machine; a ratio is
one of episodes per second, the median over rounds. BrowserGym, which starts a browser for each episode, plays a
twentieth of them. A player whose packages are not there is left out. The package
miniwob needs selenium, Chromium and its driver (`MINIWOB_CHROME_BINARY`, `MINIWOB_CHROMEDRIVER`); BrowserGym wants an
older Playwright and so a Python of its own.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from statistics import median
from typing import Any

import torch
from rich.console import Console

from benchmarks.support import record
from benchmarks.web import contexts
from benchmarks.web.players import PLAYERS, TASKS
from envs.web.browser.executable import find_browser
from rl.cli import Parser, run, whole_number
from rl.spec_paths import output_file

CONTEXTS = (1, 4, 8)


class Player:
    """A process that plays pages."""

    def __init__(self, name: str, python: str) -> None:
        environ = {
            "MINIWOB_CHROME_BINARY": "/usr/lib/chromium/chromium",
            "MINIWOB_CHROMEDRIVER": "/usr/bin/chromedriver",
        }
        environ |= {"TURNWISE_BROWSER": find_browser(None), **os.environ}
        command = [python, "-m", "benchmarks.web.players", name]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen(command, text=True, env=environ, **pipes)
        self.versions = self._read()

    def play(self, task: str, episodes: int, first: int) -> dict[str, float]:
        """Play episodes of a page; raises RuntimeError if the process has ended."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{task} {episodes} {first}\n")
        self.process.stdin.flush()
        return self._read()

    def close(self) -> None:
        """Let the process end."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()

    def _read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("the player has ended")
        return json.loads(line)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print and write."""
    parser = Parser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=whole_number(1), default=5, help="timed rounds (default: 5)")
    parser.add_argument("--episodes", type=whole_number(1), default=40, help="of a page and a round (default: 40)")
    parser.add_argument("--seconds", type=whole_number(1), default=20, help="of each number of contexts (default: 20)")
    parser.add_argument("--miniwob-python", default=sys.executable, help="a Python with miniwob and selenium")
    parser.add_argument("--browsergym-python", default=sys.executable, help="a Python with browsergym-miniwob")
    parser.add_argument("--out", type=output_file, help="file of the result (default: benchmarks/results)")
    args = parser.parse_args(argv)
    for flag, python in (("--miniwob-python", args.miniwob_python), ("--browsergym-python", args.browsergym_python)):
        if not shutil.which(python):
            parser.error(f"{flag} {python}: no such program")
    console = Console(highlight=False)
    result: dict[str, Any] = {**record.provenance(torch.device("cpu"), [0])}
    result["observation_ms"], result["late_effects"] = contexts.observation_ms(), contexts.stale_observations()
    console.print(
        f"observation of 102 elements, ms: {result['observation_ms']}; late effects: {result['late_effects']}"
    )
    result["contexts"] = {str(count): contexts.measure_contexts(count, args.seconds) for count in CONTEXTS}
    columns = ("contexts", "episodes/s", "steps/s", "reset ms", "step ms", "CPU ms a step")
    rows = [[count, *(f"{value:.1f}" for value in rates.values())] for count, rates in result["contexts"].items()]
    record.show("web/Shop-v0 in Chromium, the oracle's episodes", columns, rows, console)
    result |= race(args)
    rows = [
        [name, *(f"{each[key]:.2f}" for key in ("episodes_per_s", "cpu_s", "ratio", "cpu_ratio"))]
        for name, each in result["players"].items()
    ]
    columns = ("player", "episodes/s", "CPU s an episode", "ours/its", "its CPU/ours")
    record.show(f"MiniWoB++: {', '.join(TASKS)}", columns, rows, console)
    record.save(args.out or record.RESULTS / "web.json", result)
    return 0


def race(args: Any) -> dict[str, Any]:
    """Play all pages with all players that can be started, round by round."""
    pythons = {"miniwob": args.miniwob_python, "browsergym": args.browsergym_python}
    players, missing = {}, []
    for name in PLAYERS:
        try:
            players[name] = Player(name, pythons.get(name.partition("-")[0], sys.executable))
        except RuntimeError:
            missing.append(name)
    found: dict[str, list[dict[str, float]]] = {name: [] for name in players}
    for number in range(args.rounds + 1):
        for name, player in list(players.items())[:: 1 if number % 2 else -1]:
            episodes = args.episodes if name.startswith(("turnwise", "miniwob")) else max(1, args.episodes // 20)
            results = [player.play(task, episodes, 1 + number * args.episodes) for task in TASKS]
            if number:
                found[name].append({key: sum(each[key] for each in results) for key in results[0]})
    for player in players.values():
        player.close()
    summary = {}
    for name, rounds in found.items():
        rates = [each["episodes"] / each["seconds"] for each in rounds]
        ours = [each["episodes"] / each["seconds"] for each in found["turnwise-reuse"]]
        costs = [each["cpu"] / each["episodes"] for each in rounds]
        our_costs = [each["cpu"] / each["episodes"] for each in found["turnwise-reuse"]]
        summary[name] = {
            "versions": players[name].versions,
            "episodes": sum(each["episodes"] for each in rounds),
            "solved": sum(each["solved"] for each in rounds),
            "episodes_per_s": median(rates),
            "cpu_s": median(costs),
            "ratio": median(a / b for a, b in zip(ours, rates, strict=True)),
            "cpu_ratio": median(b / a for a, b in zip(our_costs, costs, strict=True)),
        }
    return {"players": summary, "left_out": missing, "pages": list(TASKS)}


if __name__ == "__main__":
    run(main)
