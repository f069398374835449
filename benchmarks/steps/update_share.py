"""How the CPU of the default run's updates divides: the learner, the engine, and all else.

    pip install py-spy
    python -m benchmarks.steps.update_share [--updates 600]

py-spy looks at the stacks of the threads that run, without slowing them down. A look counts for the learner if a
function of `rl/learner` is on the stack, for the engine if one of `rl/policy` is, otherwise for all else: environments,
agents, tasks of the event loop, credit, rollouts, metrics and checkpoints. Start and cold start do not count; the two
greedy evaluations do.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.support.record import RESULTS, provenance, save, show
from rl.cli import Parser, UserError, run, whole_number
from rl.spec_paths import output_file

ENV = "math/Arithmetic-v0"
LOOKS_PER_S = 200
TARGET = 0.15  # of what is neither learner nor engine
LOOP = ("Session._train ", "_run_once ")  # functions on the stack of an update, or of episodes that it waits for
START = "cold_start"


def divide(stacks: Iterable[str]) -> dict[str, float]:
    """Return the shares of `learner`, `engine` and `else` in py-spy's raw lines, `FRAME;FRAME;... COUNT`."""
    counts: Counter[str] = Counter()
    for line in stacks:
        stack, _, count = line.rpartition(" ")
        if START in stack or not any(name in stack for name in LOOP):
            continue
        part = "learner" if "rl/learner/" in stack else "engine" if "rl/policy/" in stack else "else"
        counts[part] += int(count)
    if not counts:
        raise UserError("py-spy has seen no update; use more --updates")
    return {part: counts[part] / counts.total() for part in ("learner", "engine", "else")}


def measure(updates: int, folder: Path) -> dict[str, float]:
    """Train with default settings on one thread while py-spy looks on. Raises `UserError` if it cannot."""
    spy = shutil.which("py-spy") or shutil.which("py-spy", path=str(Path(sys.executable).parent))
    if spy is None:
        raise UserError("py-spy is missing; pip install py-spy")
    raw, environment = folder / "stacks.txt", {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [spy, "record", "--rate", str(LOOKS_PER_S), "--format", "raw", "--output", str(raw), "--"]
    command += [sys.executable, "-m", "rl.train", "--env", ENV, "--threads", "1", "--updates", str(updates)]
    done = subprocess.run([*command, "--out", str(folder / "run")], capture_output=True, text=True, env=environment)
    if done.returncode or not raw.exists():
        raise UserError(f"py-spy failed: {done.stderr.strip().splitlines()[-1:]}")
    return divide(raw.read_text().splitlines())


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print and write the shares."""
    parser = Parser(prog="benchmarks.steps.update_share", description=__doc__.splitlines()[0])
    parser.add_argument("--updates", type=whole_number, default=600, help="updates of the run (600)")
    parser.add_argument("--out", type=output_file, default=RESULTS / "update-share.json", help="JSON file to write")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        shares = measure(options.updates, Path(folder))
    show(f"share of an update's CPU, {ENV}", ["part", "share"], [[name, f"{x:.1%}"] for name, x in shares.items()])
    result: dict[str, Any] = {"env": ENV, "updates": options.updates, "share": shares, "target": TARGET}
    save(options.out, result | provenance(torch.device("cpu"), [0]))
    return 0


if __name__ == "__main__":
    run(main)
