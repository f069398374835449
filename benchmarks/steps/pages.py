"""What a step on a page costs without a browser: the oracle's replies, without a model.

    python -m benchmarks.steps.pages [--tasks 60] [--rounds 5]

Each round plays all tasks. Parsed pages are forgotten before every episode, so that a page counts as parsed once in an
episode. `steps/s` is from the CPU time of the steps of a round, the median over rounds; `with resets` counts the resets
too. A step is a reply: its action, the next page from the site, its text, and the digest of the state.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from statistics import median

import torch
from rich.console import Console

import envs
from benchmarks.support import record
from envs.rows import ROWS
from envs.web.dom.tree import parse
from envs.web.web_env import WebEnv
from rl.cli import Parser, run, whole_number
from rl.spec_paths import output_file

STYLES = ("full", "short")


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print and write."""
    parser = Parser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tasks", type=whole_number(1), default=60, help="tasks of each environment (default: 60)")
    parser.add_argument("--rounds", type=whole_number(1), default=5, help="timed rounds (default: 5)")
    parser.add_argument("--out", type=output_file, help="file of the result (default: benchmarks/results)")
    args = parser.parse_args(argv)
    speeds: dict[str, dict[str, float]] = {}
    for id in sorted(row.id for row in ROWS if row.id.startswith("web/") and not row.extra):
        for style in STYLES:
            env = envs.make(id, style=style).unwrapped
            assert isinstance(env, WebEnv)
            speeds[f"{id} {style}"] = measure(env, args.tasks, args.rounds)
            env.close()
    columns = ("environment", "steps/s", "with resets")
    rows = [[name, *(f"{speed[key]:,.0f}" for key in ("steps_per_s", "with_resets"))] for name, speed in speeds.items()]
    console = Console(highlight=False)
    record.show("steps per second of CPU on one core, without a model and without a browser", columns, rows, console)
    result = {**record.provenance(torch.device("cpu"), [0]), "speeds": speeds}
    record.save(args.out or record.RESULTS / "page_steps.json", result)
    return 0


def measure(env: WebEnv, tasks: int, rounds: int) -> dict[str, float]:
    """Return steps per second: `steps_per_s` and `with_resets`."""
    tasks = min(tasks, len(env.load("test")))
    step_speeds, speeds = [], []
    for _ in range(rounds):
        stepping = resetting = 0.0
        steps = 0
        for index in range(tasks):
            parse.cache_clear()
            began = time.process_time()
            env.reset(seed=index, options={"split": "test", "index": index})
            resetting += time.process_time() - began
            for reply in env.oracle():
                began = time.process_time()
                _, _, terminated, truncated, _ = env.step(reply)
                stepping += time.process_time() - began
                steps += 1
                if terminated or truncated:
                    break
        step_speeds.append(steps / stepping)
        speeds.append(steps / (stepping + resetting))
    return {"steps_per_s": median(step_speeds), "with_resets": median(speeds)}


if __name__ == "__main__":
    run(main)
