"""Methods against their parents, seed by seed: one training run per arm and seed, what it gave, tables and curves.

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
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.compare import rates
from benchmarks.compare.comparisons import Comparison
from benchmarks.compare.plots import curve, plot
from benchmarks.learn import scripted
from benchmarks.support.record import RESULTS, commit, save, show
from benchmarks.support.runs import evaluate, interval, train

SHARED = ["--size", "8", "--updates", "100000", "--schedule", "constant:warmup=10"]
Play = Callable[[list[tuple[str, int]]], list[dict[str, Any]]]
MEASURES = {
    "area": "area gained",
    "held_out": "held-out gained",
    "pass_at": "pass@k gained",
    "episodes_to_target": "episodes to target",
    "updates_to_target": "updates to target",
}


def one(name: str, comparison: Comparison, arm: str, seed: int, home: Path) -> dict[str, Any]:
    """Train one arm on one seed: its curve over sampled tokens, held-out success and seconds. Kept in `home`."""
    folder = home / f"{comparison.runs_of or name}-{arm.replace(' ', '_').replace('/', '-')}-{seed}"
    kept = home / f"{folder.name}.json"  # an arm may have a point in it
    if kept.exists():
        return json.loads(kept.read_text())
    algo, *more = arm.split()
    flags = ["--env", comparison.env, *SHARED, *comparison.flags, "--algo", algo, *more]
    flags += ["--sampled-tokens", str(comparison.tokens)]
    if comparison.start:
        flags += [
            "--model",
            str(started(comparison.runs_of or name, comparison, home)),
            "--env-arg",
            "style=short",
        ]  # as the bundled model has learned
    lines, summary, wall_s, cpu_s = train(flags, seed, folder, home / "cache")
    found = {
        "seed": seed,
        "updates": len(lines),
        "tokens": np.cumsum([line["tokens/sampled"] for line in lines]).astype(int).tolist(),
        "episodes": np.cumsum([line["episodes/played"] for line in lines]).astype(int).tolist(),
        "coverage": lines[-1].get("tasks/coverage") if lines else None,
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
    if comparison.samples:
        model = folder / "checkpoints" / "latest" / "model"
        own = ["--env", comparison.env, *comparison.env_args, "--env-arg", "style=short"]
        found["pass_at"] = evaluate(own, model, samples=comparison.samples, seed=seed, cache=home / "cache")
    print(
        f"{name} {arm} seed {seed}: {found['before']:.3f} -> {found['held_out']:.3f}, area {area(found):.3f}, "
        f"{len(lines)} updates, {wall_s:.0f} s",
        flush=True,
    )
    kept.write_text(json.dumps(found))
    shutil.rmtree(folder)
    return found


def started(name: str, comparison: Comparison, home: Path) -> Path:
    """The model that all runs of a comparison begin with, made if it is not there."""
    folder = home / f"{name}-start"
    if not (folder / "summary.json").exists():
        flags = ["--env", comparison.env, *comparison.start, "--updates", "0"]
        train(flags, 0, folder, home / "cache")
    return folder / "checkpoints" / "latest" / "model"


def validated(folder: Path, lines: Sequence[dict[str, Any]]) -> list[tuple[int, float]]:
    """Sampled tokens so far and greedy success on validation tasks, for each evaluation of a run."""
    path = folder / "evaluations.jsonl"
    entries = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    tokens = np.cumsum([line["tokens/sampled"] for line in lines])
    return [(int(tokens[entry["update"] - 1]), entry["success"]) for entry in entries]


def area(found: dict[str, Any], tokens: int | None = None) -> float:
    """The mean of training success over the sampled tokens."""
    return float(curve(found, tokens or found["tokens"][-1]).mean())


def to_target(found: dict[str, Any], target: float, unit: str) -> int:
    """Updates or episodes until training success, averaged over five updates, is at `target`; all where it never is.

    Of a run with evaluations, until the first one at `target`.
    """
    if points := found.get("validation"):
        tokens = next((tokens for tokens, success in points if success >= target), found["tokens"][-1])
        place = min(int(np.searchsorted(found["tokens"], tokens)), len(found["tokens"]) - 1)
        return place + 1 if unit == "updates" else int(found["episodes"][place])
    smooth = np.convolve(found["success"], np.ones(5) / 5, mode="valid") if len(found["success"]) >= 5 else np.zeros(0)
    above = np.flatnonzero(smooth >= target)
    last = int(above[0]) + 4 if len(above) else len(found["success"]) - 1
    return last + 1 if unit == "updates" else int(found["episodes"][last])


def compared(
    name: str, comparison: Comparison, arm: str, parent: str, runs: dict[str, list[dict[str, Any]]]
) -> dict[str, Any]:
    """What an arm adds to its parent, paired by seed."""
    tokens = comparison.tokens
    pairs = list(zip(runs[arm], runs[parent], strict=True))
    differences = {
        "area": [area(ours, tokens) - area(theirs, tokens) for ours, theirs in pairs],
        "held_out": [ours["held_out"] - theirs["held_out"] for ours, theirs in pairs],
    }
    if comparison.samples:
        k = str(comparison.samples)
        differences["pass_at"] = [ours["pass_at"][k] - theirs["pass_at"][k] for ours, theirs in pairs]
    if comparison.target:
        for unit in ("episodes", "updates"):
            differences[f"{unit}_to_target"] = [
                to_target(ours, comparison.target, unit) - to_target(theirs, comparison.target, unit)
                for ours, theirs in pairs
            ]
    return {
        "comparison": name,
        "env": comparison.env,
        "arm": arm,
        "against": parent,
        "level": {side: float(np.mean([area(found, tokens) for found in runs[side]])) for side in (arm, parent)},
        **{
            measure: {"mean": float(np.mean(values)), "interval": interval(values), "by_seed": values}
            for measure, values in differences.items()
        },
        "scoring": float(np.mean([found["scoring"] for found in runs[arm]])),
    }


def learnt(comparison: Comparison, runs: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """What each arm gains over its cold start in held-out greedy success; random play and the oracle on such tasks."""
    gains = {arm: [found["held_out"] - found["before"] for found in own] for arm, own in runs.items()}
    return {
        **{script: scripted(comparison.env, comparison.flags, script) for script in ("random", "oracle")},
        "gains": {arm: {"mean": float(np.mean(values)), "interval": interval(values)} for arm, values in gains.items()},
    }


def run_all(
    comparisons: Mapping[str, Comparison],
    *,
    kind: str,
    seeds: int,
    jobs: int,
    home: Path,
    origin: Mapping[str, Any],
    results: Path = RESULTS,
) -> list[dict[str, Any]]:
    """Run what is missing of these comparisons; write a JSON and a plot of each, `KIND-NAME`; return what arms add."""
    entries: list[dict[str, Any]] = []
    for name, comparison in comparisons.items():
        if comparison.start:
            started(comparison.runs_of or name, comparison, home)
        with ThreadPoolExecutor(jobs) as pool:
            play = partial(_play, pool, name, comparison, home)
            chosen = rates.choose(comparison.arms, comparison.rates, partial(_areas, play, comparison.tokens))
            runs = _runs(comparison, seeds, {arm: rates.with_rate(arm, one.rate) for arm, one in chosen.items()}, play)
        own = [compared(name, comparison, arm, parent, runs) for arm, parent in comparison.pairs]
        found = {"comparisons": own, "learnt": learnt(comparison, runs), "runs": runs}
        if chosen:
            found["rates"] = {arm: choice._asdict() for arm, choice in chosen.items()}
        save(results / f"{kind}-{name}.json", {**origin, "setting": asdict(comparison), "jobs": jobs, **found})
        plot(comparison, runs, results / f"{kind}-{name}.png")
        entries += own
    return entries


def _runs(
    comparison: Comparison, seeds: int, flagged: Mapping[str, str], play: Play
) -> dict[str, list[dict[str, Any]]]:
    """The runs of every arm, by its name; `flagged` holds arms with further flags."""
    first, *others = comparison.arms
    todo = [(first, seed) for seed in range(seeds)]  # leaves its cold starts to the others
    todo += [(arm, seed) for seed in range(seeds) for arm in others]
    runs: dict[str, list[dict[str, Any]]] = {arm: [] for arm in (first, *others)}
    for (arm, _), found in zip(todo, play([(flagged.get(arm, arm), seed) for arm, seed in todo]), strict=True):
        runs[arm].append(found)
    return runs


def _areas(play: Play, tokens: int, todo: list[tuple[str, int]]) -> list[float]:
    return [area(found, tokens) for found in play(todo)]


def _play(
    pool: ThreadPoolExecutor, name: str, comparison: Comparison, home: Path, todo: list[tuple[str, int]]
) -> list[dict[str, Any]]:
    """Run arms, each with a seed, at the same time."""
    return list(pool.map(lambda job: one(name, comparison, job[0], job[1], home), todo))


def show_table(entries: Sequence[Mapping[str, Any]], seeds: int) -> None:
    """Print what each arm adds to its parent; measures that only some comparisons have stand where they have them."""
    measures = [name for name in MEASURES if any(name in entry for entry in entries)]
    show(
        f"what a method adds, {seeds} paired seeds, equal sampled tokens",
        ("task", "method", "against", "area of both", *(f"{MEASURES[name]}, 95 %" for name in measures), "scoring"),
        [
            (
                entry["env"].rsplit("/", 1)[-1].rsplit(":")[-1],
                entry["arm"],
                entry["against"],
                f"{entry['level'][entry['against']]:.3f} {entry['level'][entry['arm']]:.3f}",
                *(_text(entry.get(name)) for name in measures),
                f"{entry['scoring']:.0%}",
            )
            for entry in entries
        ],
    )


def _text(measure: Mapping[str, Any] | None) -> str:
    if measure is None:
        return ""
    low, high = measure["interval"]
    return f"{measure['mean']:+.3g} ({low:+.3g} to {high:+.3g})"
