"""Does training work? Learning curves of the bundled model over seeds, with intervals, from the ordinary command line.

    python -m benchmarks.learn --seeds 5                   # every task of TASKS
    python -m benchmarks.learn --env math/Arithmetic-v0 --jobs 2
    python -m benchmarks.learn --env 'web/Widgets-v0 kind=press max_turns=6'
    python -m benchmarks.learn --style full --seeds 3      # those of FULL_STYLE, with the openings for any model
    python -m benchmarks.learn --seeds 0                   # draws all curves in one picture, from the results

Each seed is one `python -m rl.train` of its own on one thread. "Gain" is held-out greedy success after reinforcement
learning minus that after the cold start, on the same tasks; its interval is a bootstrap over seeds. Runs that
`--runs DIR` already holds are not made again. `python docs/generate.py` writes the table of `docs/results.md` from the
results.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np
import torch

import envs
from benchmarks.support.record import commit, provenance, save, show
from benchmarks.support.runs import interval, train
from rl.cli import Parser, run, whole_number
from rl.evaluate.report import Report
from rl.evaluate.runner import SCRIPTS, count_tasks, evaluate_script, tickets
from rl.rollout.seating import seating_of
from rl.style import default_style, with_style

TICK = "web/Widgets-v0 kind=tick level=0 max_turns=5"
IN_BROWSER = f"{TICK} engine=chromium"
RECALL = "games/Recall-v0 kind=repeat pairs=4 fewest=1"
FROM_RECALL = ("--cold-start-from", "recall")  # a run of RECALL that ends with its cold start, in place of the word
ROOM = ("--cold-start-valid", "0.4")  # imitation up to 0.8 leaves greedy replies at 0.97
MORE_THAN_CHANCE = ("--cold-start-until", "0.5")  # one of three at random succeeds in a third
TASKS: dict[str, list[str]] = {  # id and arguments of the environment -> flags beyond the defaults
    "math/Arithmetic-v0": [],
    "multi/SolverVerifier-v0": ["--updates", "40"],
    "multi/Relay-v0": ["--updates", "40"],
    "multi/PlanPath-v0": ["--updates", "40"],
    "web/Widgets-v0 kind=press max_turns=3": ["--updates", "15"],
    IN_BROWSER: [
        *("--updates", "20", "--groups", "16", "--minibatches", "2", "--turn-tokens", "32", "--max-tokens", "512"),
        *("--lr", "1.3e-4", "--schedule", "linear:warmup=10,over=600,floor=0.1", "--dtype", "float32"),  # as bundled
    ],
    "web/Widgets-v0 kind=radio max_turns=4": ["--updates", "15"],
    TICK: ["--updates", "15"],
    "web/Widgets-v0 kind=login level=0 max_turns=5": ["--updates", "12", *FROM_RECALL],
    "web/Widgets-v0 kind=attach max_turns=4": ["--updates", "12"],
    "web/Mail-v0 kind=archive level=0 max_turns=4": ["--updates", "30", *ROOM],
    "web/Board-v0 kind=triage level=0 max_turns=5": ["--updates", "25"],
    "web/Access-v0 kind=revoke level=0 max_turns=4": ["--updates", "40"],
    "web/Calendar-v0 kind=cancel level=0 max_turns=4": ["--updates", "30", *ROOM],
    "web/Wiki-v0 kind=hops level=0 max_turns=3": ["--updates", "15", *MORE_THAN_CHANCE],
    "web/Shop-v0 kind=look-up level=0 max_turns=3": ["--updates", "15", *MORE_THAN_CHANCE],
    "web/CRM-v0 kind=look-up level=0 max_turns=3": ["--updates", "25", *ROOM],
    "web/Purchase-v0 level=0 max_turns=4": ["--updates", "30", *ROOM],
    "math/Algebra-v0 level=0": ["--updates", "300"],
    RECALL: ["--updates", "40", "--cold-start", "40000"],
    "games/Doors-v0 turns=4": ["--updates", "40"],
    "games/Taxi-v0 level=0": ["--updates", "40"],
    "games/Taxi-v0": ["--updates", "40", *ROOM],
    "games/Mastermind-v0 holes=2": ["--updates", "160"],
    "games/2048-v0 target=8 rows=2 columns=2": ["--updates", "40"],
    "games/Minesweeper-v0 size=4 mines=2": ["--updates", "40"],
    "games/Sokoban-v0 size=4 longest=6": ["--updates", "40"],
    "games/Rooms-v0 rooms=2 length=2": ["--updates", "30"],
    "math/Fractions-v0 level=0": ["--updates", "300"],
    "math/Countdown-v0 size=2 top=40": ["--updates", "40"],
    "math/LinearSystem-v0 level=0": ["--updates", "300"],
    "math/WordProblems-v0 level=0": ["--updates", "300"],
    "math/FirstError-v0 level=0": ["--updates", "300", "--cold-start", "40000", "--cold-start-until", "0.4"],
    "games/GuessNumber-v0": [],
    "games/FrozenLake-v0": [],
    "games/Maze-v0": ["--updates", "160"],
    "games/CliffWalking-v0": [],
    "games/Wordle-v0 letters=3 words=24": [],
    "games/TwentyQuestions-v0": ["--updates", "40"],
    "games/Blackjack-v0": ["--updates", "40"],
    "math/Revise-v0": ["--cold-start", "600", "--cold-start-until", "0.3"],
    "math/Python-v0": [
        *("--updates", "60", "--temperature", "0.8"),
        *("--cold-start", "600", "--cold-start-until", "0.3"),
    ],
    "math/Sets-v0": ["--updates", "300"],
    "code/Functions-v0": ["--updates", "100"],
    "code/Repair-v0": ["--updates", "40"],
    "code/Shell-v0": ["--updates", "40"],
    "multi/Kuhn-v0": ["--updates", "40", "--opponent", "random"],
    "multi/IteratedDilemma-v0": ["--updates", "40", "--opponent", "tit_for_tat"],
    "multi/TicTacToe-v0": ["--updates", "40", "--opponent", "random"],  # against itself it goes round in circles
    "multi/Negotiation-v0": ["--updates", "40", "--opponent", "conceder"],
    "multi/Leduc-v0": ["--updates", "100", "--opponent", "random"],
    "multi/ConnectFour-v0 rows=3 columns=4 connect=3": ["--updates", "40", "--opponent", "random"],
    "tools/Clarify-v0": ["--updates", "40"],
    "tools/Search-v0": ["--updates", "30", *FROM_RECALL],  # from random weights greedy replies begin at 0.99
    "tools/Plans-v0 form=code longest=1": ["--updates", "20", *FROM_RECALL],
    "tools/Support-v0 case=track": ["--updates", "20", *FROM_RECALL],
    "tools/Travel-v0 case=code": ["--updates", "20", *FROM_RECALL],
    "tools/Workflow-v0 level=0 tools=all max_turns=4": ["--updates", "20", *FROM_RECALL],
    "multi/CoderTester-v0": ["--updates", "40"],
    "multi/OddWord-v0": ["--updates", "40", "--opponent", "honest"],
    "multi/Sokoban-v0 size=3 boxes=1 longest=4": ["--updates", "40"],
    "code/Repo-v0": ["--updates", "40"],
}
# Tasks whose runs begin with the cold start of another one. Imitation measures itself by episodes, which take long in a
# browser, and the pages are the same without one.
STARTS = {IN_BROWSER: TICK}
COPYING = ["--cold-start", "40000", "--cold-start-until", "0.3"]  # flags of the run that FROM_RECALL stands for
# Openings in full style have hundreds of tokens, so that an update with as many episodes takes far longer.
FULL_STYLE: dict[str, list[str]] = {
    "math/Arithmetic-v0": ["--updates", "100"],
    "games/GuessNumber-v0": ["--max-tokens", "1024", "--groups", "8", "--updates", "60"],
    "math/Revise-v0": ["--updates", "60"],
}
RESULTS = Path(__file__).with_name("results")
COLUMNS = 5  # of the picture of all curves


def with_arguments(task: str) -> tuple[str, list[str]]:
    """Split `ID KEY=VALUE ...` into the id and the flags of the command line that name the arguments."""
    env, *words = task.split()
    return env, [flag for word in words for flag in ("--env-arg", word)]


def name_of(task: str) -> str:
    """Return a task as part of a file's name: `web-Widgets-v0-press` for `web/Widgets-v0 kind=press`."""
    env, *words = task.split()
    return "-".join([env.replace("/", "-"), *(word.partition("=")[2] for word in words)])


def one(task: str, flags: Sequence[str], seed: int, home: Path) -> dict[str, Any]:
    """Train one seed; its summary, curve and seconds."""
    env, arguments = with_arguments(task)
    out = home / f"{name_of(task)}-{seed}"
    kept = home / f"{out.name}.json"
    if kept.exists():
        return json.loads(kept.read_text())
    words = list(flags)
    if task in STARTS:
        words += ["--model", str(started(STARTS[task], [], seed, home)), "--env-arg", "style=short"]
    if FROM_RECALL[1] in words:
        words[words.index(FROM_RECALL[1])] = str(started(RECALL, COPYING, seed, home))
    lines, summary, wall_s, cpu_s = train(["--env", env, *arguments, *words], seed, out, home / "cache")
    curve = [round(line["reward/mean"], 4) for line in lines]
    print(
        f"{task} seed {seed}: {summary['success_before']:.3f} -> {summary['success_after']:.3f} in {wall_s:.0f} s",
        flush=True,
    )
    seconds = {"seconds": round(wall_s, 1), "cpu_seconds": round(cpu_s, 1)}
    found = {"seed": seed, "commit": commit(), **seconds, "reward": curve, **summary}
    kept.write_text(json.dumps(found))
    return found


def started(task: str, flags: Sequence[str], seed: int, home: Path) -> Path:
    """The model of `task` after its cold start, with which runs of other tasks begin, made if it is not there."""
    env, arguments = with_arguments(task)
    out = home / f"{name_of(task)}-{seed}-start"
    if not (out / "summary.json").exists():
        words = ["--env", env, *arguments, *flags, "--updates", "0", "--eval-episodes", "0"]
        train(words, seed, out, home / "cache")
    return out / "checkpoints" / "latest" / "model"


def scripted(env: str, flags: Sequence[str], name: str) -> float:
    """Success of a script, such as `random` or `oracle`, on the held-out tasks that runs of seed 0 are judged by.

    Teammates of several seats all play by the script; in a contest the others are the environment's default opponent.
    """
    words = [word for flag, word in pairwise(flags) if flag == "--env-arg"]
    styled = with_style(words, default_style(env, words, is_tiny=True))
    seating = seating_of(env, words, envs.arguments(styled, envs.entry(env)))
    make = seating.make_floor if name == "random" else seating.make_view
    probe = make()
    chosen = tickets(count_tasks(probe, "test"), 200, 1, 0)
    probe.close()
    groups = asyncio.run(evaluate_script(make, SCRIPTS[name], chosen))
    return Report.from_groups(groups, env=env, policy=name, seed=0).success.mean


def summarise(task: str, flags: Sequence[str], runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What the table and the JSON say of one task."""
    env, arguments = with_arguments(task)
    gains = [run["success_after"] - run["success_before"] for run in runs]
    low, high = interval(gains)
    found: dict[str, Any] = {
        "env": task,
        "random": scripted(env, [*arguments, *flags], "random"),
        "oracle": scripted(env, [*arguments, *flags], "oracle"),
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
    """One panel per task: every seed's training reward, smoothed, and the held-out levels."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    columns = min(COLUMNS, len(found))
    rows = -(-len(found) // columns)
    figure, axes = pyplot.subplots(rows, columns, figsize=(4.6 * columns, 3.6 * rows), squeeze=False)
    for axis in axes.flat[len(found) :]:
        axis.set_axis_off()
    for axis, entry in zip(axes.flat, found, strict=False):
        for run_ in entry["runs"]:
            curve = np.asarray(run_["reward"])
            width = max(1, len(curve) // 30)
            smooth = np.convolve(curve, np.ones(width) / width, mode="valid")
            axis.plot(np.arange(width, len(curve) + 1), smooth, lw=1.2, alpha=0.8)
        for key, line, offset in (("success_before", ":", -0.045), ("success_after", "-", 0.012)):
            level, when = entry[key]["mean"], key.removeprefix("success_")
            axis.axhline(level, color="black", ls=line, lw=1)
            axis.text(1, level + offset, f"held-out, {when}: {level:.2f}", size=8)
        axis.set_title(fill(entry["env"], 46), size=10)
        rewards = [reward for run_ in entry["runs"] for reward in run_["reward"]]  # of a game of cards in chips
        axis.set(xlabel="update", ylim=(min(0.0, 1.06 * min(rewards)), 1.06 * max(1.0, *rewards)))
    for axis in axes[:, 0]:
        axis.set_ylabel("training reward (sampled)")
    figure.tight_layout()
    figure.savefig(path, dpi=110 if rows == 1 else 70)
    pyplot.close(figure)


def main() -> int:
    """Run, print the table, write JSON and plot."""
    parser = Parser(description=__doc__.partition("\n")[0])
    parser.add_argument("--env", metavar="TASK", help="only this one: an id, with the arguments that TASKS has for it")
    parser.add_argument("--style", choices=("short", "full"), default="short", help="how environments word their texts")
    parser.add_argument("--seeds", type=whole_number(0), default=5)
    parser.add_argument("--jobs", type=whole_number(1), default=2, help="runs at a time, one thread each")
    parser.add_argument("--runs", metavar="DIR", help="where the run folders are kept (default: a temporary folder)")
    args = parser.parse_args()
    chosen, suffix = TASKS, ""
    if args.style == "full":
        chosen = {env: ["--env-arg", "style=full", *flags] for env, flags in FULL_STYLE.items()}
        suffix = "-full"
    if args.env and args.env not in chosen:
        parser.error(f"--env {args.env}: with --style {args.style} it is one of {', '.join(chosen)}")
    chosen = {args.env: chosen[args.env]} if args.env else chosen if args.seeds else {}
    home = Path(args.runs or tempfile.mkdtemp(prefix="learn-"))
    home.mkdir(parents=True, exist_ok=True)
    found = []
    for task, flags in chosen.items():
        with ThreadPoolExecutor(args.jobs) as pool:
            runs = list(pool.map(lambda seed, task=task, flags=flags: one(task, flags, seed, home), range(args.seeds)))
        found.append(summarise(task, flags, runs))
        name = f"learn-{name_of(task)}{suffix}"
        origin = provenance(torch.device("cpu"), range(args.seeds))
        save(RESULTS / f"{name}.json", {**origin, "jobs": args.jobs, **found[-1]})
        plot(found[-1:], RESULTS / f"{name}.png")
    results = [json.loads(path.read_text()) for path in sorted(RESULTS.glob("learn-*.json"))]
    plot([result for result in results if "style=full" not in result["flags"]], RESULTS / "learn.png")
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
