"""How often does a trained seat not lose against perfect play? Tic-tac-toe from both seats, over training seeds.

    python -m benchmarks.unbeaten --seeds 5 --runs DIR      # goes on where it was stopped

The bundled model imitates the game's oracle against an opponent who plays perfectly in 7 of 10 moves, once for all
seeds, and is then trained against that opponent, in both seats. It is judged greedily against `minimax`, who draws one
of all perfect moves, in games from each seat, after the cold start and after training: the share of games that it does
not lose.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.support.record import RESULTS, commit, provenance, save, show
from benchmarks.support.runs import interval, train
from rl.cli import Parser, run, whole_number

ENV = "multi/TicTacToe-v0"
OPPONENT = "benchmarks/support/opponents.py:mostly_perfect"
GAME = ("--env", ENV, "--env-arg", "seat=any", "--env-arg", f"opponent={OPPONENT}", "--turn-tokens", "6")
COMMON = (*GAME, "--max-tokens", "256", "--eval-episodes", "0", "--rollouts", "none")
START = (*COMMON, "--size", "2", "--cold-start", "20000", "--cold-start-until", "0.8", "--updates", "0")
TRAINING = (*COMMON, "--env-arg", "style=short", "--lr", "1e-4", "--minibatches", "4", "--schedule", "linear:floor=0.1")
UPDATES, GAMES = 40, 100  # games from each seat


def judge(folder: Path) -> dict[str, float]:
    """Shares of games against `minimax` that a run's model wins, draws and loses, and of replies that are no move."""
    result = folder.with_suffix(".games.json")
    model = folder / "checkpoints" / "latest" / "model"  # the run itself names an opponent in its `env_arg`
    command = [sys.executable, "-m", "rl.evaluate", "--env", ENV, "--policy", str(model), "--opponent", "minimax"]
    command += ["--env-arg", "style=short", "--turn-tokens", "6"]
    command += ["--episodes", str(GAMES), "--seed", "1", "--json", str(result), "--no-rollouts"]
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    found = json.loads(result.read_text())
    rewards = np.array([reward for task in found["per_task"] for reward in task["rewards"]])
    shares = {"won": rewards > 0, "drawn": rewards == 0, "lost": rewards < 0}
    return {name: float(np.mean(hits)) for name, hits in shares.items()} | {"games": len(rewards)}


def started(home: Path) -> tuple[Path, dict[str, float]]:
    """The run whose model all seeds begin with, made if it is not there, and how it plays."""
    folder = home / "start"
    if not (folder / "summary.json").exists():
        train(START, 0, folder, home / "cache")
    kept = home / "start.json"
    if not kept.exists():
        kept.write_text(json.dumps(judge(folder)))
    return folder, json.loads(kept.read_text())


def one(seed: int, updates: int, home: Path) -> dict[str, Any]:
    """Train one seed and judge it. Kept in `home`."""
    kept = home / f"trained-{updates}-{seed}.json"
    if kept.exists():
        return json.loads(kept.read_text())
    model, before = started(home)
    folder = home / f"trained-{updates}-{seed}"
    flags = [*TRAINING, "--model", str(model / "checkpoints" / "latest" / "model"), "--updates", str(updates)]
    trained = train(flags, seed, folder, home / "cache")
    found: dict[str, Any] = {
        "seed": seed,
        "commit": commit(),
        "before": before,
        "after": judge(folder),
        "cpu_seconds": round(trained.cpu_s, 1),
        "reward": [round(line["reward/mean"], 4) for line in trained.metrics],
    }
    print(f"seed {seed}: lost {before['lost']:.3f} of the games at first, {found['after']['lost']:.3f} after training")
    kept.write_text(json.dumps(found))
    shutil.rmtree(folder)
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Run what is missing, print the table, write JSON; 1 where fewer than 95 % of the games are unbeaten."""
    parser = Parser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=whole_number(1), default=5)
    parser.add_argument("--updates", type=whole_number(1), default=UPDATES)
    parser.add_argument("--runs", metavar="DIR", help="where finished runs are kept (default: a temporary folder)")
    args = parser.parse_args(argv)
    home = Path(args.runs or tempfile.mkdtemp(prefix="unbeaten-"))
    home.mkdir(parents=True, exist_ok=True)
    runs = [one(seed, args.updates, home) for seed in range(args.seeds)]
    unbeaten = {phase: [1 - found[phase]["lost"] for found in runs] for phase in ("before", "after")}
    gains = [after - before for before, after in zip(unbeaten["before"], unbeaten["after"], strict=True)]
    show(
        f"games of tic-tac-toe against minimax that are not lost, {args.seeds} seeds",
        ("seed", "cold start", "after training"),
        [
            (str(found["seed"]), f"{before:.3f}", f"{after:.3f}")
            for found, before, after in zip(runs, unbeaten["before"], unbeaten["after"], strict=True)
        ],
    )
    mean = {phase: float(np.mean(values)) for phase, values in unbeaten.items()}
    low, high = interval(gains)
    print(f"mean {mean['before']:.3f} -> {mean['after']:.3f}, gain {np.mean(gains):+.3f} ({low:+.3f} to {high:+.3f})")
    origin = provenance(torch.device("cpu"), range(args.seeds))
    summary = {"unbeaten": mean, "gain": {"mean": float(np.mean(gains)), "interval": (low, high), "by_seed": gains}}
    save(RESULTS / "unbeaten.json", {**origin, "env": ENV, "updates": args.updates, **summary, "runs": runs})
    return int(mean["after"] < 0.95)


if __name__ == "__main__":
    run(main)
