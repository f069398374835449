"""How often does a trained seat not lose against perfect play? Tic-tac-toe from both seats, over training seeds.

    python -m benchmarks.seats.unbeaten --seeds 5 --runs DIR      # goes on where it was stopped

The bundled model imitates the game's oracle against an opponent who plays perfectly in 7 of 10 moves, once for all
seeds, and is then trained against `minimax`, who draws one of all perfect moves, from both seats in turn. It is judged
greedily against the same, in games from each seat, after the cold start and after training: the share of games that it
does not lose.
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
TEACHER = "benchmarks/support/opponents.py:mostly_perfect"
PLAY = ("--env-arg", "style=short", "--turn-tokens", "6", "--max-tokens", "256")
COMMON = ("--env", ENV, *PLAY, "--eval-episodes", "0", "--rollouts", "none")
VIEW = ("--env-arg", "seat=any", "--env-arg", f"opponent={TEACHER}")
START = (*COMMON, *VIEW, "--size", "2", "--cold-start", "20000", "--cold-start-until", "0.8", "--updates", "0")
RATE = ("--lr", "1e-4", "--schedule", "linear:floor=0.1")
TRAINING = (*COMMON, "--opponent", "minimax", "--groups", "16", "--size", "8", *RATE)
UPDATES, GAMES = 60, 200  # games from each seat


def judge(model: Path) -> dict[str, Any]:
    """Shares of games against `minimax` that a model does not lose, in all and by seat, and the number of games."""
    result = model.with_suffix(".games.json")
    command = [
        sys.executable,
        "-m",
        "rl.evaluate",
        "--env",
        ENV,
        *PLAY,
        "--policy",
        str(model),
        "--opponent",
        "minimax",
    ]
    command += ["--episodes", str(GAMES), "--seed", "1", "--json", str(result), "--no-rollouts"]
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    found = json.loads(result.read_text())
    seats = {row["seat"]: 1 + row["return_mean"]["mean"] for row in found["seats"]["by_seat"]}  # nobody wins
    return {
        "unbeaten": float(np.mean([*seats.values()])),
        "seats": seats,
        "games": found["samples"] * GAMES * len(seats),
    }


def started(home: Path) -> tuple[Path, dict[str, Any]]:
    """The model that all seeds begin with, made if it is not there, and how it plays."""
    folder, model, kept = home / "start", home / "start-model", home / "start.json"
    if not (folder / "summary.json").exists():
        train(START, 0, folder, home / "cache")
    if not kept.exists():
        shutil.copytree(folder / "checkpoints" / "latest" / "model", model, dirs_exist_ok=True)  # no settings of a run
        kept.write_text(json.dumps(judge(model)))
    return model, json.loads(kept.read_text())


def one(seed: int, updates: int, home: Path) -> dict[str, Any]:
    """Train one seed and judge it. Kept in `home`."""
    kept = home / f"trained-{updates}-{seed}.json"
    if kept.exists():
        return json.loads(kept.read_text())
    model, before = started(home)
    folder = home / f"trained-{updates}-{seed}"
    flags = [*TRAINING, "--model", str(model), "--updates", str(updates)]
    trained = train(flags, seed, folder, home / "cache")
    found: dict[str, Any] = {
        "seed": seed,
        "commit": commit(),
        "before": before,
        "after": judge(shutil.copytree(folder / "checkpoints" / "latest" / "model", home / f"model-{seed}")),
        "cpu_seconds": round(trained.cpu_s, 1),
        "reward": [round(line["reward/mean"], 4) for line in trained.metrics],
    }
    print(
        f"seed {seed}: {before['unbeaten']:.3f} -> {found['after']['unbeaten']:.3f}, {trained.cpu_s:.0f} s", flush=True
    )
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
    unbeaten = {phase: [found[phase]["unbeaten"] for found in runs] for phase in ("before", "after")}
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
