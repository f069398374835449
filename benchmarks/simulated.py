"""Measure how far a world model is from the environment that it stands in for.

    python -m benchmarks.simulated                 # trains the model and the policies: about 20 minutes of a core
    python -m benchmarks.simulated --runs DIR      # goes on where it was stopped

A bundled-size model learns to predict the answers of `games/GuessNumber-v0` from episodes of the oracle with random
replies among its own. Policies of different strength, the bundled model after more and more training, then play the
same test tasks in the real environment, in the model's, and in that of counts. What is reported: how often a prediction
is what happened (at best about as often as the hidden number leaves no choice), each policy's success in the three, the
gap, and the correlation over the policies.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.support.record import RESULTS, commit, provenance, save, show
from benchmarks.support.runs import train
from rl.cli import Parser, run, whole_number

ENV = "games/GuessNumber-v0"
WORLD = ["--env", f"transitions:{ENV}", "--cold-start", "20000", "--cold-start-until", "0.42", "--updates", "0"]
STAGES = {"10 updates": 10, "25 updates": 25, "60 updates": 60}  # of one and the same training
SAMPLES = 4  # episodes per task, at temperature 1


def success(env: str, policy: str, home: Path, *more: str) -> tuple[float, dict[str, Any]]:
    """Evaluate a policy on the test tasks of `env` in short style; return its success, and the whole result."""
    name = "".join(letter if letter.isalnum() else "-" for letter in f"{env}-{policy}-{'-'.join(more)}")[-150:]
    path = home / f"{name}.json"
    if not path.exists():
        command = [sys.executable, "-m", "rl.evaluate", "--env", env, "--policy", policy, "--json", str(path)]
        command += ["--env-arg", "style=short", *(part for word in more for part in ("--env-arg", word))]
        command += ["--samples", str(SAMPLES)]
        command += [] if policy == "random" else ["--temperature", "1", "--turn-tokens", "24"]
        done = subprocess.run(
            command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}, check=False
        )
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)} failed: {done.stderr[-400:]}")
    result = json.loads(path.read_text())
    return float(result["success"]["mean"]), result


def trained(flags: Sequence[str], folder: Path, home: Path) -> Path:
    """Train into `folder` unless that is done; return the folder of the model."""
    if not (folder / "summary.json").exists():
        train(flags, 0, folder, home / "cache")
    return folder / "checkpoints" / "latest" / "model"


def main(argv: Sequence[str] | None = None) -> int:
    """Train, evaluate, print the table and write JSON."""
    parser = Parser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", help="folder of runs and results; what it holds is not made again")
    parser.add_argument("--episodes", type=whole_number(1), default=5000, help="episodes that are counted")
    args = parser.parse_args(argv)
    home = Path(args.runs or tempfile.mkdtemp(prefix="simulated-"))
    home.mkdir(parents=True, exist_ok=True)
    world = trained(WORLD, home / "world", home)
    right, _ = success(f"transitions:{ENV}", str(world), home)
    policies = {"random": "random"}
    for label, updates in {"cold start": 0, **STAGES}.items():
        flags = ["--env", ENV, "--updates", str(updates), "--schedule", "constant"]
        policies[label] = str(trained(flags, home / f"policy-{updates}", home))
    rows: list[dict[str, Any]] = []
    for label, policy in policies.items():
        row: dict[str, Any] = {"policy": label, "real": success(ENV, policy, home)[0]}
        for name, simulator in (("model", f"model:{world}"), ("counts", f"counts:episodes={args.episodes}")):
            row[name] = success(f"simulated:{ENV}", policy, home, f"simulator={simulator}")[0]
        rows.append(row)
    real = [row["real"] for row in rows]
    found = {
        name: {
            "largest_gap": max((row[name] - row["real"] for row in rows), key=abs),
            "correlation": float(np.corrcoef(real, [row[name] for row in rows])[0, 1]),
        }
        for name in ("model", "counts")
    }
    result = {"env": ENV, "predictions_right": right, "policies": rows, **found, "commit": commit()}
    save(RESULTS / "simulated.json", {**provenance(torch.device("cpu"), [0]), **result})
    show(
        f"{ENV}: success of the same policies on the same tasks",
        ("policy", "real", "world model", "counts"),
        [(row["policy"], *(f"{row[name]:.3f}" for name in ("real", "model", "counts"))) for row in rows],
    )
    print(f"sampled predictions that are what happened: {right:.3f}")
    for name, figures in found.items():
        print(f"{name}: largest gap {figures['largest_gap']:+.3f}, correlation {figures['correlation']:.3f}")
    return 0


if __name__ == "__main__":
    run(main)
