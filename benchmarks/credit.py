"""Does credit per turn, per state, by information or over a tree help? Each method against its parent, seed by seed.

    python -m benchmarks.credit --runs DIR                    # all of them, 5 seeds; goes on where it was stopped
    python -m benchmarks.credit --only revise --seeds 7

Every run is one `python -m rl.train` on one thread that ends after the same number of sampled tokens. Arms of a
comparison share seeds, and with them the cold start and the order of tasks. `area` is the mean of training success
over the sampled tokens, from the first to the last: what is learned, and how soon. `held-out` is greedy success on
test tasks at the end. Differences are paired by seed; their intervals are percentile bootstraps over seeds. Where arms
sample their training episodes in different ways (`is_judged_apart`), training success says nothing about them: then
curves and areas are of greedy play on validation tasks.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.learn import scripted
from benchmarks.support.comparisons import COMPARISONS
from benchmarks.support.record import RESULTS, commit, provenance, save, show
from benchmarks.support.runs import interval, train
from rl.cli import Parser, run, whole_number

SHARED = ["--size", "8", "--updates", "100000", "--schedule", "constant:warmup=10"]
PAGE = ("--env-arg", "kind=radio", "--env-arg", "max_turns=6", "--turn-tokens", "12", "--max-tokens", "768")
CLONING = "grpo --strategy recorded --surrogate nll"
GRID = 200  # places on the token axis at which curves are read


def one(name: str, arm: str, seed: int, home: Path) -> dict[str, Any]:
    """Train one arm on one seed: its curve over sampled tokens, held-out success and seconds. Kept in `home`."""
    comparison = COMPARISONS[name]
    folder = home / f"{name}-{arm.replace(' ', '_')}-{seed}"
    kept = folder.with_suffix(".json")
    if kept.exists():
        return json.loads(kept.read_text())
    algo, *more = arm.split()
    flags = ["--env", comparison.env, *SHARED, *comparison.flags, "--algo", algo, *more]
    flags += ["--sampled-tokens", str(comparison.tokens)]
    if comparison.start:
        flags += ["--model", str(started(name, home)), "--env-arg", "style=short"]  # as the bundled model has learned
    lines, summary, wall_s, cpu_s = train(flags, seed, folder, home / "cache")
    found = {
        "seed": seed,
        "updates": len(lines),
        "tokens": np.cumsum([line["tokens/sampled"] for line in lines]).astype(int).tolist(),
        "success": [round(line["success/mean"], 4) for line in lines],
        "before": summary["success_before"],
        "held_out": summary["success_after"],
        "validation": validated(folder, lines),
        "replies": round(sum(line["tokens/sampled"] / line["tokens/reply"] for line in lines)),
        "scoring": sum(line["time/score_s"] for line in lines) / sum(line["time/update_s"] for line in lines),
        "commit": commit(),
        "cpu_seconds": round(cpu_s, 1),
        "flags": [word.replace(str(home), "DIR") for word in flags],
    }
    if comparison.is_judged_apart and "--env-arg" in more:
        shared = ["--env", comparison.env, *comparison.flags, "--env-arg", "style=short", "--updates", "0"]
        shared += ["--model", str(folder / "checkpoints" / "latest" / "model")]
        judge = train(shared, seed, folder.with_name(f"{folder.name}-judge"), home / "cache")
        found["shared_held_out"] = judge.summary["success_before"]
        shutil.rmtree(folder.with_name(f"{folder.name}-judge"))
    print(
        f"{name} {arm} seed {seed}: {found['before']:.3f} -> {found['held_out']:.3f}, area {area(found):.3f}, "
        f"{len(lines)} updates, {wall_s:.0f} s",
        flush=True,
    )
    kept.write_text(json.dumps(found))
    shutil.rmtree(folder)
    return found


def started(name: str, home: Path) -> Path:
    """The model that all runs of a comparison begin with, made if it is not there."""
    folder = home / f"{name}-start"
    if not (folder / "summary.json").exists():
        flags = ["--env", COMPARISONS[name].env, *COMPARISONS[name].start, "--updates", "0"]
        train(flags, 0, folder, home / "cache")
    return folder / "checkpoints" / "latest" / "model"


def validated(folder: Path, lines: Sequence[dict[str, Any]]) -> list[tuple[int, float]]:
    """Sampled tokens so far and greedy success on validation tasks, for each evaluation of a run."""
    path = folder / "evaluations.jsonl"
    entries = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    tokens = np.cumsum([line["tokens/sampled"] for line in lines])
    return [(int(tokens[entry["update"] - 1]), entry["success"]) for entry in entries]


def curve(found: dict[str, Any], tokens: int) -> np.ndarray:
    """Training success at `GRID` places between 0 and `tokens`: that of the update which sampled there.

    Of a run with evaluations, the success of greedy play instead, between two evaluations in a straight line.
    """
    if found.get("validation"):
        points = [(0, found["before"]), *found["validation"], (found["tokens"][-1], found["held_out"])]
        return np.interp(np.linspace(0, tokens, GRID, endpoint=False), *zip(*points, strict=True))
    places = np.minimum(np.linspace(0, tokens, GRID, endpoint=False), found["tokens"][-1] - 1)
    return np.asarray(found["success"])[np.searchsorted(found["tokens"], places, side="right")]


def area(found: dict[str, Any], tokens: int | None = None) -> float:
    """The mean of training success over the sampled tokens."""
    return float(curve(found, tokens or found["tokens"][-1]).mean())


def compared(name: str, arm: str, parent: str, runs: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """What an arm adds to its parent, paired by seed."""
    tokens = COMPARISONS[name].tokens
    differences = {
        "area": [
            area(ours, tokens) - area(theirs, tokens) for ours, theirs in zip(runs[arm], runs[parent], strict=True)
        ],
        "held_out": [
            ours["held_out"] - theirs["held_out"] for ours, theirs in zip(runs[arm], runs[parent], strict=True)
        ],
    }
    return {
        "comparison": name,
        "env": COMPARISONS[name].env,
        "arm": arm,
        "against": parent,
        "level": {side: float(np.mean([area(found, tokens) for found in runs[side]])) for side in (arm, parent)},
        **{
            measure: {"mean": float(np.mean(values)), "interval": interval(values), "by_seed": values}
            for measure, values in differences.items()
        },
        "scoring": float(np.mean([found["scoring"] for found in runs[arm]])),
    }


def learnt(name: str, runs: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """What each arm gains over its cold start in held-out greedy success; random play and the oracle on such tasks."""
    comparison = COMPARISONS[name]
    gains = {arm: [found["held_out"] - found["before"] for found in own] for arm, own in runs.items()}
    return {
        **{script: scripted(comparison.env, comparison.flags, script) for script in ("random", "oracle")},
        "gains": {arm: {"mean": float(np.mean(values)), "interval": interval(values)} for arm, values in gains.items()},
    }


def plot(name: str, runs: dict[str, list[dict[str, Any]]], path: Path) -> None:
    """The mean curve of each arm, with the range of its seeds."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    comparison, width = COMPARISONS[name], GRID // 20
    figure, axis = pyplot.subplots(figsize=(5.2, 3.8))
    places = np.linspace(0, comparison.tokens, GRID, endpoint=False)[width - 1 :] / 1000
    for arm, found in runs.items():
        curves = [np.convolve(curve(one, comparison.tokens), np.ones(width) / width, mode="valid") for one in found]
        (line,) = axis.plot(places, np.mean(curves, axis=0), lw=1.4, label=arm)
        axis.fill_between(places, np.min(curves, axis=0), np.max(curves, axis=0), alpha=0.12, color=line.get_color())
    success = "success of greedy play" if comparison.is_judged_apart else "training success (sampled)"
    axis.set(xlabel="thousand sampled tokens", ylabel=success)
    axis.set_title(f"{comparison.env.rsplit(':')[-1]}: {comparison.about}", size=9)
    axis.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def main(argv: Sequence[str] | None = None) -> int:
    """Run what is missing, print the table, write JSON and plot."""
    parser = Parser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", choices=[*COMPARISONS], action="append", help="this comparison; repeatable")
    parser.add_argument("--seeds", type=whole_number(2), default=5)
    parser.add_argument("--jobs", type=whole_number(1), default=2, help="runs at a time, one thread each")
    parser.add_argument("--runs", metavar="DIR", help="where finished runs are kept (default: a temporary folder)")
    args = parser.parse_args(argv)
    names = args.only or list(COMPARISONS)
    home = Path(args.runs or tempfile.mkdtemp(prefix="credit-"))
    home.mkdir(parents=True, exist_ok=True)
    origin = provenance(torch.device("cpu"), range(args.seeds))
    results: list[dict[str, Any]] = []
    for name in names:
        first, *others = COMPARISONS[name].arms
        if COMPARISONS[name].start:
            started(name, home)
        jobs = [(name, first, seed) for seed in range(args.seeds)]  # leaves its cold starts to the others
        jobs += [(name, arm, seed) for seed in range(args.seeds) for arm in others]
        runs: dict[str, list[dict[str, Any]]] = {arm: [] for arm in (first, *others)}
        with ThreadPoolExecutor(args.jobs) as pool:
            for (_, arm, _), found in zip(jobs, pool.map(lambda job: one(*job, home), jobs), strict=True):
                runs[arm].append(found)
        own = [compared(name, arm, parent, runs) for arm, parent in COMPARISONS[name].pairs]
        found = {"comparisons": own, "learnt": learnt(name, runs), "runs": runs}
        save(RESULTS / f"credit-{name}.json", {**origin, "jobs": args.jobs, **found})
        plot(name, runs, RESULTS / f"credit-{name}.png")
        results += own
    show(
        f"what a method adds, {args.seeds} paired seeds, equal sampled tokens",
        ("task", "method", "against", "area of both", "area gained, 95 %", "held-out gained, 95 %", "scoring"),
        [
            (
                entry["env"].rsplit("/", 1)[-1].rsplit(":")[-1],
                entry["arm"],
                entry["against"],
                f"{entry['level'][entry['against']]:.3f} {entry['level'][entry['arm']]:.3f}",
                *(
                    f"{entry[measure]['mean']:+.3f} ({entry[measure]['interval'][0]:+.3f} to "
                    f"{entry[measure]['interval'][1]:+.3f})"
                    for measure in ("area", "held_out")
                ),
                f"{entry['scoring']:.0%}",
            )
            for entry in results
        ],
    )
    return 0


if __name__ == "__main__":
    run(main)
