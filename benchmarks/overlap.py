"""What `--overlap` saves: runs over slow environments with it and with `--lag 0`, from the same cold starts.

    python -m benchmarks.overlap                     # five seeds, a quarter of an hour, most of it waiting
    python -m benchmarks.overlap --seeds 2 --updates 5
    python -m benchmarks.overlap --modes             # each `--mode` beside `--mode sync`, in half an hour

All runs are made in this process, one after the other, from one and the same cold start, with one thread for the
trainer and, with `--overlap`, one for the sampler. An environment's step takes 0.4 seconds in the mean and 1.5 at most
(`benchmarks.support.slow_games`), and no episode may fail by its deadline. Wall time is that of the updates, without
start and evaluations, which are equal; the runs of a seed follow each other. Success is the held-out greedy one after
training. What `--runs DIR` already holds is not made again.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from benchmarks.support import slow_games
from benchmarks.support.record import RESULTS, provenance, save, show
from benchmarks.support.runs import interval
from rl.cli import Parser, run, whole_number
from rl.schedule import MODES
from rl.spec_paths import output_file
from rl.train import __main__ as rl_train

ENV = f"{Path(slow_games.__file__)}:SlowGuess"
FLAGS = ["--env-arg", "size=4", "--env-arg", "style=short", "--groups", "8", "--size", "8", "--step-seconds", "6"]
COLD = ["--cold-start", "60", "--updates", "0", "--eval-episodes", "0", "--seed", "0"]
FROM_COLD = ["--cold-start", "0", "--lr", "1e-4", "--minibatches", "1", "--turn-tokens", "8", "--max-tokens", "128"]
MEAN_S = 0.4  # of a step
WAYS: Mapping[str, Sequence[str]] = {"alternating": ("--lag", "0"), "overlapping": ("--lag", "2", "--overlap")}
BY_MODE: Mapping[str, Sequence[str]] = {mode: ("--mode", mode) for mode in MODES}


class Run(NamedTuple):
    """One run: seconds of its updates, held-out success, episodes that failed, and the most its groups lagged."""

    seconds: float
    success_before: float
    success_after: float
    errored: int
    lag: int


def measured(way: str, seed: int, updates: int, episodes: int, home: Path, more: Sequence[str] = ()) -> Run:
    """Train one seed one way, unless its result is there already."""
    kept = home / f"{way}-{seed}.json"
    if not kept.exists():
        cold = home / "cold"
        if not (cold / "summary.json").exists():
            _train([*FLAGS, *COLD, *more], cold)  # its episodes follow each other: without waiting
        out = home / f"{way}-{seed}"
        flags = [*FLAGS, *more, "--model", str(cold), *FROM_COLD, *(WAYS | BY_MODE)[way], "--updates", str(updates)]
        os.environ[slow_games.MEAN_STEP_S] = str(MEAN_S)
        try:
            _train([*flags, "--eval-episodes", str(episodes), "--save-every", "10000", "--seed", str(seed)], out)
        finally:
            del os.environ[slow_games.MEAN_STEP_S]
        lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
        summary = json.loads((out / "summary.json").read_text())
        found = Run(
            sum(line["time/update_s"] for line in lines),
            summary["success_before"],
            summary["success_after"],
            int(sum(line["episodes/errored"] for line in lines)),
            int(max(line["lag/max"] for line in lines)),
        )
        print(f"seed {seed} {way}: {found.seconds:.0f} s, success {found.success_after:.3f}", flush=True)
        kept.write_text(json.dumps(found._asdict()))
    return Run(**json.loads(kept.read_text()))


def _train(flags: Sequence[str], out: Path) -> None:
    """`python -m rl.train` in this process, begun anew; what it prints goes beside its folder."""
    shutil.rmtree(out, ignore_errors=True)
    threads = torch.get_num_threads()
    try:
        with open(out.with_suffix(".log"), "w") as log, redirect_stdout(log):
            code = rl_train.main(["--env", ENV, *flags, "--threads", "1", "--out", str(out)])
    finally:
        torch.set_num_threads(threads)
    if code:
        raise RuntimeError(f"the run in {out} ended with {code}: see {out.with_suffix('.log')}")


def summary(runs: Mapping[str, Sequence[Run]], way: str, base: str) -> dict[str, Any]:
    """How many times shorter the runs of a way are than those of another, and how their success differs, by seed."""
    pairs = list(zip(runs[base], runs[way], strict=True))
    ratios = [one.seconds / other.seconds for one, other in pairs]
    differences = [other.success_after - one.success_after for one, other in pairs]
    return {
        "shorter": float(np.mean(ratios)),
        "shorter_interval": interval(ratios),
        "difference": float(np.mean(differences)),
        "difference_interval": interval(differences),
    }


def details(runs: Mapping[str, Sequence[Run]]) -> dict[str, Any]:
    """Each run of each way, and how many episodes failed in all of them."""
    return {
        "errored": sum(one.errored for found in runs.values() for one in found),
        "by_seed": {way: [one._asdict() for one in found] for way, found in runs.items()},
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Train, print the table and write JSON."""
    parser = Parser(description=__doc__.partition("\n")[0])
    parser.add_argument("--modes", action="store_true", help="compare all modes with sync")
    parser.add_argument("--seeds", type=whole_number(1), default=5)
    parser.add_argument("--updates", type=whole_number(1), default=20)
    parser.add_argument("--episodes", type=whole_number(1), default=100, help="held-out ones (default: 100)")
    parser.add_argument(
        "--runs", metavar="DIR", help="where the results of runs are kept (default: a temporary folder)"
    )
    parser.add_argument("--out", type=output_file, help="default: benchmarks/results/overlap.json or modes.json")
    args = parser.parse_args(argv)
    ways = list(BY_MODE if args.modes else WAYS)
    with tempfile.TemporaryDirectory(prefix="overlap-") as temporary:
        home = Path(args.runs or temporary)
        home.mkdir(parents=True, exist_ok=True)
        size = args.updates, args.episodes, home
        made = [{way: measured(way, seed, *size) for way in ways} for seed in range(args.seeds)]
    runs = {way: [one[way] for one in made] for way in ways}
    found = {way: summary(runs, way, ways[0]) for way in ways[1:]}
    origin = provenance(torch.device("cpu"), range(args.seeds))
    compared: dict[str, Any] = {f"against_{ways[0]}": found} if args.modes else dict(found[ways[1]])
    compared |= details(runs)
    name = "modes.json" if args.modes else "overlap.json"
    save(args.out or RESULTS / name, {**origin, "flags": FLAGS, "updates": args.updates, **compared})
    rows = [
        (way, *(f"{np.mean([getattr(one, name) for one in runs[way]]):.3g}" for name in Run._fields)) for way in ways
    ]
    show(f"{args.updates} updates over slow environments, {args.seeds} seeds", ("", *Run._fields), rows)
    for way, each in found.items():
        (low, high), (least, most) = each["shorter_interval"], each["difference_interval"]
        print(f"\n{way} is {each['shorter']:.2f} times shorter than {ways[0]} ({low:.2f} to {high:.2f});", end=" ")
        print(f"difference of success {each['difference']:+.3f} ({least:+.3f} to {most:+.3f})", end="")
    print()
    return 0


if __name__ == "__main__":
    run(main)
