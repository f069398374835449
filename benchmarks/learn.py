"""Does training work? Learning curves of the bundled model over seeds, with intervals, from the ordinary command line.

    python -m benchmarks.learn --seeds 5                   # every environment of ENVIRONMENTS
    python -m benchmarks.learn --env math/Arithmetic-v0 --jobs 2
    python -m benchmarks.learn --style full --seeds 3      # those of FULL_STYLE, with the openings for any model

Each seed is one `python -m rl.train` of its own on one thread. "Gain" is held-out greedy success after reinforcement
learning minus that after the cold start, on the same tasks; its interval is a bootstrap over seeds. Runs that
`--runs DIR` already holds are not made again.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch

import envs
from benchmarks.support.record import commit, provenance, save, show
from benchmarks.support.runs import interval, train
from rl.cli import Parser, run, whole_number
from rl.evaluate.report import Report
from rl.evaluate.runner import SCRIPTS, count_tasks, evaluate_script, tickets

ENVIRONMENTS: dict[str, list[str]] = {  # id -> flags beyond the defaults
    "math/Arithmetic-v0": [],
    "games/GuessNumber-v0": [],
    "games/FrozenLake-v0": [],
    "games/Maze-v0": [],
    "games/CliffWalking-v0": [],
    "games/Wordle-v0": ["--env-arg", "letters=3", "--env-arg", "words=24"],
    "games/TwentyQuestions-v0": ["--updates", "40"],
    "games/Blackjack-v0": ["--updates", "40"],
    "games/Mastermind-v0": [],
    "math/Revise-v0": ["--cold-start", "600", "--cold-start-until", "0.3"],
    "math/Python-v0": [
        *("--updates", "60", "--temperature", "0.8"),
        *("--cold-start", "600", "--cold-start-until", "0.3"),
    ],
    "math/Sets-v0": ["--updates", "300"],
    "code/Functions-v0": ["--updates", "100"],
    "tools/Clarify-v0": ["--updates", "40"],
}
# Openings in full style have hundreds of tokens, so that an update with as many episodes takes far longer.
FULL_STYLE: dict[str, list[str]] = {
    "math/Arithmetic-v0": ["--updates", "100"],
    "games/GuessNumber-v0": ["--max-tokens", "1024", "--groups", "8", "--updates", "60"],
    "math/Revise-v0": ["--updates", "60"],
}
RESULTS = Path(__file__).with_name("results")


def one(env: str, flags: Sequence[str], seed: int, home: Path) -> dict[str, Any]:
    """Train one seed; its summary, curve and seconds."""
    out = home / f"{env.replace('/', '-')}-{seed}"
    kept = home / f"{out.name}.json"
    if kept.exists():
        return json.loads(kept.read_text())
    lines, summary, wall_s, cpu_s = train(["--env", env, *flags], seed, out, home / "cache")
    curve = [round(line["reward/mean"], 4) for line in lines]
    print(
        f"{env} seed {seed}: {summary['success_before']:.3f} -> {summary['success_after']:.3f} in {wall_s:.0f} s",
        flush=True,
    )
    seconds = {"seconds": round(wall_s, 1), "cpu_seconds": round(cpu_s, 1)}
    found = {"seed": seed, "commit": commit(), **seconds, "reward": curve, **summary}
    kept.write_text(json.dumps(found))
    return found


def scripted(env: str, flags: Sequence[str], name: str) -> float:
    """Success of a script, such as `random` or `oracle`, on the held-out tasks that runs of seed 0 are judged by."""
    words = [word for flag, word in pairwise(flags) if flag == "--env-arg"]
    make = partial(envs.make, env, **envs.arguments(words, envs.entry(env)))
    probe = make()
    chosen = tickets(count_tasks(probe, "test"), 200, 1, 0)
    probe.close()
    groups = asyncio.run(evaluate_script(make, SCRIPTS[name], chosen))
    return Report.from_groups(groups, env=env, policy=name, seed=0).success.mean


def summarise(env: str, flags: Sequence[str], runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What the table and the JSON say of one environment."""
    gains = [run["success_after"] - run["success_before"] for run in runs]
    low, high = interval(gains)
    found: dict[str, Any] = {
        "env": env,
        "random": scripted(env, flags, "random"),
        "oracle": scripted(env, flags, "oracle"),
        "flags": list(flags),
        "gain": float(np.mean(gains)),
        "gain_low": low,
        "gain_high": high,
    }
    for key in ("success_before", "success_after"):
        values = [run[key] for run in runs]
        found[key] = {"mean": float(np.mean(values)), "interval": interval(values), "seeds": values}
    return {**found, "cpu_seconds": float(np.mean([run["cpu_seconds"] for run in runs])), "runs": list(runs)}


def plot(found: Sequence[dict[str, Any]], path: Path) -> None:
    """One panel per environment: every seed's training reward, smoothed, and the held-out levels."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(found), figsize=(4.6 * len(found), 3.6), sharey=True, squeeze=False)
    for axis, entry in zip(axes[0], found, strict=True):
        for run_ in entry["runs"]:
            curve = np.asarray(run_["reward"])
            width = max(1, len(curve) // 30)
            smooth = np.convolve(curve, np.ones(width) / width, mode="valid")
            axis.plot(np.arange(width, len(curve) + 1), smooth, lw=1.2, alpha=0.8)
        for key, style in (("success_before", ":"), ("success_after", "-")):
            axis.axhline(entry[key]["mean"], color="black", ls=style, lw=1)
            axis.text(
                1,
                entry[key]["mean"] + 0.012,
                f"held-out, {key.removeprefix('success_')}: {entry[key]['mean']:.2f}",
                size=8,
            )
        axis.set(title=entry["env"], xlabel="update", ylim=(0, 1.06))
    axes[0][0].set_ylabel("training reward (sampled)")
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def main() -> int:
    """Run, print the table, write JSON and plot."""
    parser = Parser(description=__doc__.partition("\n")[0])
    parser.add_argument("--env", metavar="ID", help="only this one")
    parser.add_argument("--style", choices=("short", "full"), default="short", help="how environments word their texts")
    parser.add_argument("--seeds", type=whole_number(1), default=5)
    parser.add_argument("--jobs", type=whole_number(1), default=2, help="runs at a time, one thread each")
    parser.add_argument("--runs", metavar="DIR", help="where the run folders are kept (default: a temporary folder)")
    args = parser.parse_args()
    chosen, suffix = ENVIRONMENTS, ""
    if args.style == "full":
        chosen = {env: ["--env-arg", "style=full", *flags] for env, flags in FULL_STYLE.items()}
        suffix = "-full"
    if args.env and args.env not in chosen:
        parser.error(f"--env {args.env}: with --style {args.style} it is one of {', '.join(chosen)}")
    chosen = {args.env: chosen[args.env]} if args.env else chosen
    home = Path(args.runs or tempfile.mkdtemp(prefix="learn-"))
    home.mkdir(parents=True, exist_ok=True)
    found = []
    for env, flags in chosen.items():
        with ThreadPoolExecutor(args.jobs) as pool:
            runs = list(pool.map(lambda seed, env=env, flags=flags: one(env, flags, seed, home), range(args.seeds)))
        found.append(summarise(env, flags, runs))
        name = f"learn-{env.rsplit('/', 1)[-1]}{suffix}"
        origin = provenance(torch.device("cpu"), range(args.seeds))
        save(RESULTS / f"{name}.json", {**origin, "jobs": args.jobs, **found[-1]})
        plot(found[-1:], RESULTS / f"{name}.png")
    show(
        f"held-out greedy success, {args.seeds} seeds",
        ("environment", "random", "cold start", "after RL", "oracle", "gain", "95 % interval", "CPU seconds"),
        [
            (
                entry["env"],
                f"{entry['random']:.3f}",
                f"{entry['success_before']['mean']:.3f}",
                f"{entry['success_after']['mean']:.3f}",
                f"{entry['oracle']:.3f}",
                f"{entry['gain']:+.3f}",
                f"{entry['gain_low']:+.3f} to {entry['gain_high']:+.3f}",
                f"{entry['cpu_seconds']:.0f}",
            )
            for entry in found
        ],
    )
    return 0


if __name__ == "__main__":
    run(main)
