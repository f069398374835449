"""How many episodes and seconds a run with default settings takes to a held-out success.

    python -m benchmarks.reach --env math/Arithmetic-v0 --success 0.9 --threads 2
    python -m benchmarks.reach --env 'games/Doors-v0 turns=4' --success 0.95 --seeds 3

A run is evaluated every `--every` updates on 200 tasks of the split `val` and ends when `--success` is reached there;
what its model then is on 200 tasks of the split `test`, which nothing was chosen by, is told beside it. Seconds are
those of the whole command: its imports, the cold start, updates, and all evaluations. Runs follow one another.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import torch

from benchmarks.learn import name_of, with_arguments
from benchmarks.support.record import RESULTS, provenance, save, show
from benchmarks.support.runs import train
from rl.cli import Parser, real_number, run, whole_number
from rl.spec_paths import output_file


def one(task: str, flags: Sequence[str], seed: int, home: Path, threads: int) -> dict[str, Any]:
    """Train one seed with a cold start of its own; where it ended."""
    env, arguments = with_arguments(task)
    out = home / f"{name_of(task)}-{seed}"
    lines, summary, wall_s, cpu_s = train(
        ["--env", env, *arguments, *flags], seed, out, home / f"cache-{seed}", threads=threads
    )
    sampled_s = sum(line["time/update_s"] for line in lines)
    found = {"seed": seed, "seconds": round(wall_s, 1), "cpu_seconds": round(cpu_s, 1), "update_s": round(sampled_s, 1)}
    print(f"{task} seed {seed}: {summary['best_success']} after {summary['episodes']:,} episodes, {wall_s:.0f} s")
    return {**found, **summary}


def main(argv: Sequence[str] | None = None) -> int:
    """Run, print the table and write JSON."""
    parser = Parser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--env", metavar="TASK", default="math/Arithmetic-v0", help="an id, or an id with KEY=VALUE ..."
    )
    parser.add_argument("--success", type=real_number(0, 1), default=0.9)
    parser.add_argument("--every", type=whole_number(1), default=13, help="updates between evaluations (default: 13)")
    parser.add_argument("--updates", type=whole_number(1), help="at most so many (default: those of a run)")
    parser.add_argument("--seeds", type=whole_number(1), default=5)
    parser.add_argument("--threads", type=whole_number(1), default=1)
    parser.add_argument("--runs", metavar="DIR", help="where the run folders go (default: a temporary folder)")
    parser.add_argument("--out", type=output_file, help="default: benchmarks/results/reach-TASK.json")
    args = parser.parse_args(argv)
    home = Path(args.runs or tempfile.mkdtemp(prefix="reach-"))
    home.mkdir(parents=True, exist_ok=True)
    flags = ["--eval-every", str(args.every), "--eval-episodes", "200", "--target-success", str(args.success)]
    flags += ["--updates", str(args.updates)] if args.updates else []
    try:
        runs = [one(args.env, flags, seed, home, args.threads) for seed in range(args.seeds)]
    except RuntimeError as error:  # with what the command printed
        parser.error(str(error).splitlines()[-1])
    medians = {key: median(each[key] for each in runs) for key in ("episodes", "seconds", "cpu_seconds")}
    origin = provenance(torch.device("cpu"), range(args.seeds))
    result = {"env": args.env, "success": args.success, "every": args.every, "threads": args.threads}
    path = args.out or RESULTS / f"reach-{name_of(args.env)}.json"
    save(path, {**origin, **result, "median": medians, "runs": runs})
    rows = [
        (
            *(f"{r['seed']}", f"{r['success_before']:.3f}", f"{r['best_success'] or 0:.3f}"),
            *(f"{r['success_after']:.3f}", f"{r['episodes']:,}", f"{r['seconds']:.0f}", f"{r['cpu_seconds']:.0f}"),
        )
        for r in runs
    ]
    names = ("seed", "cold start", "val", "test", "episodes", "seconds", "CPU seconds")
    show(f"{args.env} to {args.success:g}; median {medians['episodes']:,.0f} episodes", names, rows)
    return 0


if __name__ == "__main__":
    run(main)
