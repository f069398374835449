"""Training runs as benchmarks make them: a process each, and intervals over their seeds."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np


class Trained(NamedTuple):
    """What is left of a run: its metrics, line by line, its summary, and the seconds it took."""

    metrics: list[dict[str, Any]]
    summary: dict[str, Any]
    wall_s: float
    cpu_s: float


def train(flags: Sequence[str], seed: int, folder: Path, cache: Path, *, threads: int = 1) -> Trained:
    """One `python -m rl.train` into `folder`, begun anew; what it prints goes beside it.

    Raise `RuntimeError` if it fails.
    """
    shutil.rmtree(folder, ignore_errors=True)  # half a run
    command = [sys.executable, "-m", "rl.train", *flags, "--seed", str(seed), "--threads", str(threads)]
    command += ["--out", str(folder)]
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "TURNWISE_CACHE": str(cache)}
    began, log = time.monotonic(), folder.parent / f"{folder.name}.log"
    with open(log, "w") as file:
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise RuntimeError(f"{' '.join(command)} failed: {log.read_text()[-400:]}")
    metrics = folder / "metrics.jsonl"  # there is none without updates
    lines = [json.loads(line) for line in metrics.read_text().splitlines()] if metrics.exists() else []
    summary = json.loads((folder / "summary.json").read_text())
    return Trained(lines, summary, time.monotonic() - began, usage.ru_utime + usage.ru_stime)


def evaluate(flags: Sequence[str], model: Path, *, samples: int, seed: int, cache: Path) -> dict[str, float]:
    """One `python -m rl.evaluate` of a model with `samples` episodes per test task; pass@k by k, as text.

    Raise `RuntimeError` if it fails.
    """
    result = model.parent / "evaluation.json"
    command = [sys.executable, "-m", "rl.evaluate", *flags, "--policy", str(model), "--samples", str(samples)]
    command += ["--seed", str(seed), "--json", str(result), "--no-rollouts"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TURNWISE_CACHE": str(cache)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed: {done.stderr[-400:]}")
    return json.loads(result.read_text())["pass_at"]


def interval(values: Sequence[float]) -> tuple[float, float]:
    """A 95 % percentile bootstrap interval of the mean over seeds."""
    means = np.random.default_rng(0).choice(np.asarray(values), size=(20_000, len(values))).mean(1)
    return float(np.quantile(means, 0.025)), float(np.quantile(means, 0.975))
