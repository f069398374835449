"""Is a cold start shorter where the model has learnt to copy before? Imitation with and without `--cold-start-from`.

    python -m benchmarks.compare.copying --seeds 3 --jobs 2
    python -m benchmarks.compare.copying --task 'tools/Search-v0'

Each run of a task imitates its oracle until reinforcement learning could begin, or up to the bound of imitation, and
makes no updates: once from random weights, once from those of a run of `games/Recall-v0` of the same seed, which is
made once and whose CPU seconds are a row of their own. Held-out success is that of greedy replies.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.learn import COPYING, RECALL, name_of, with_arguments
from benchmarks.support.record import RESULTS, provenance, save, show
from benchmarks.support.runs import train
from rl.cli import Parser, run, whole_number

TASKS = (
    "web/Widgets-v0 kind=login level=0 max_turns=5",
    "tools/Search-v0",
    "tools/Plans-v0 form=code longest=1",
    "tools/Support-v0 case=track",
)
ARMS = ("recall", "random")  # what imitation begins with: random weights, or those of a run of RECALL
_LINE = re.compile(r"cold start: .* imitated .*; sampled success ([0-9.]+), .* ([0-9.]+) of the replies valid")


def one(task: str, flags: Sequence[str], seed: int, name: str, home: Path) -> dict[str, Any]:
    """Imitate the oracle of `task`; the sampled success and the valid replies at the end, and the CPU seconds."""
    out, summary = home / name, home / f"{name}.json"
    if summary.exists():
        return json.loads(summary.read_text())
    env, arguments = with_arguments(task)
    with tempfile.TemporaryDirectory() as cache:  # of its own, so that imitation is always made, and its seconds count
        words = ["--env", env, *arguments, *flags, "--updates", "0"]
        result = train(words, seed, out, Path(cache))
    line = _LINE.search((home / f"{name}.log").read_text())
    assert line is not None, f"{out} has no line about its cold start"
    measured = {"success": float(line[1]), "valid": float(line[2]), "greedy": result.summary["success_before"]}
    entry = {"task": task, "seed": seed, "cpu_seconds": round(result.cpu_s, 1), **measured}
    summary.write_text(json.dumps(entry))
    return entry


def of_seed(tasks: Sequence[str], seed: int, home: Path) -> list[dict[str, Any]]:
    """All runs of a seed: that of RECALL first, which others begin with."""
    entries = [{**one(RECALL, COPYING, seed, f"recall-{seed}", home), "start": "random"}]
    for arm in ARMS:
        for task in tasks:
            flags = ["--cold-start-from", str(home / f"recall-{seed}")] if arm == "recall" else []
            entries.append({**one(task, flags, seed, f"{name_of(task)}-{arm}-{seed}", home), "start": arm})
    return entries


def main(argv: Sequence[str] | None = None) -> int:
    """Run, print the table and write JSON."""
    parser = Parser(description=__doc__.partition("\n")[0])
    parser.add_argument("--task", action="append", choices=TASKS, help="only this one; repeatable")
    parser.add_argument("--seeds", type=whole_number(1), default=1)
    parser.add_argument("--jobs", type=whole_number(1), default=1, help="seeds at a time, one thread each")
    parser.add_argument("--runs", metavar="DIR", help="where the run folders are kept (default: a temporary folder)")
    args = parser.parse_args(argv)
    home = Path(args.runs or tempfile.mkdtemp(prefix="copying-"))
    home.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(args.jobs) as pool:
        seeds = list(pool.map(lambda seed: of_seed(args.task or TASKS, seed, home), range(args.seeds)))
    entries = [entry for seed in seeds for entry in seed]
    origin = provenance(torch.device("cpu"), range(args.seeds))
    save(RESULTS / "copying.json", {**origin, "jobs": args.jobs, "runs": entries})
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for entry in entries:
        groups.setdefault((entry["task"], entry["start"]), []).append(entry)
    figures = {"success": ".2f", "valid": ".2f", "greedy": ".2f", "cpu_seconds": ".0f"}
    rows = [
        (*names, *(format(np.mean([each[key] for each in group]), style) for key, style in figures.items()))
        for names, group in groups.items()
    ]
    columns = ("task", "begins with", "sampled success", "valid", "greedy success", "CPU seconds")
    show(f"at the end of imitation, {args.seeds} seeds", columns, rows)
    return 0


if __name__ == "__main__":
    run(main)
