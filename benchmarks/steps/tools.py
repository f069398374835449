"""What a step of an environment with stateful tools costs: replies of the oracle, recorded beforehand, without a model.

    python -m benchmarks.steps.tools [--tasks 60] [--rounds 30]

Each round plays all tasks. `steps/s` is from the CPU time of the steps of a round, the median over rounds; `with
resets` counts the resets too. On a machine that does other work CPU time grows with its load, since cores share caches
and execution units; `unhindered` is from the least time of each single step over the rounds.

tau2's gym wrapper makes 24.5 steps/s. That figure is not from this script: it was measured once, on two cores without a
GPU. `benchmarks.steps.tau2_gym` measures the wrapper and `tools/Tau2-v0` in turns.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from statistics import median
from typing import Any

import torch
from rich.console import Console

import envs
from benchmarks.support import record
from envs.checks.env_under_test import oracle_replies
from envs.data import MissingData
from envs.env import Env
from envs.types import Message
from rl.cli import Parser, run, whole_number
from rl.spec_paths import output_file

PLACES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("tools/Support-v0", {}),
    ("tools/Support-v0", {"style": "short"}),
    ("tools/Travel-v0", {}),
    ("tools/Travel-v0", {"style": "short"}),
    ("tools/Tau2-v0", {}),
)
TAU2_STEPS_PER_S = 24.5
TARGET, TARGET_RATIO = 20_000, 50


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print and write."""
    parser = Parser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tasks", type=whole_number(1), default=60, help="tasks of each environment (default: 60)")
    parser.add_argument("--rounds", type=whole_number(1), default=30, help="timed rounds (default: 30)")
    parser.add_argument("--out", type=output_file, help="file of the result (default: benchmarks/results)")
    args = parser.parse_args(argv)
    speeds: dict[str, dict[str, float]] = {}
    for id, arguments in PLACES:
        env = envs.make(id, **arguments).unwrapped
        assert isinstance(env, Env)
        try:
            speeds[" ".join([id, *arguments.values()])] = measure(env, args.tasks, args.rounds)
        except MissingData:
            continue
        finally:
            env.close()
    rows = [
        [
            name,
            *(f"{speed[key]:,.0f}" for key in ("steps_per_s", "with_resets", "unhindered")),
            f"{speed['steps_per_s'] / TAU2_STEPS_PER_S:,.0f}",
        ]
        for name, speed in speeds.items()
    ]
    columns = ("environment", "steps/s", "with resets", "unhindered", f"times tau2's {TAU2_STEPS_PER_S}")
    console = Console(highlight=False)
    record.show("steps per second of CPU on one core, without a model", columns, rows, console)
    console.print(f"targets: {TARGET:,} steps/s, {TARGET_RATIO} times tau2's gym wrapper")
    found = {
        **record.provenance(torch.device("cpu"), [0]),
        "speeds": speeds,
        "tau2_steps_per_s": TAU2_STEPS_PER_S,
        "targets": {"steps_per_s": TARGET, "times_tau2": TARGET_RATIO},
    }
    record.save(args.out or record.RESULTS / "tool_steps.json", found)
    return 0


def measure(env: Env, tasks: int, rounds: int) -> dict[str, float]:
    """Return steps per second: `steps_per_s`, `with_resets` and `unhindered`. Raises MissingData without tasks."""
    tasks = min(tasks, len(env.load("test")))
    replies = [_record(env, index) for index in range(tasks)]
    least = [[float("inf")] * len(each) for each in replies]
    step_times, times = [], []
    for _ in range(rounds):
        stepping = resetting = 0.0
        for index, episode in enumerate(replies):
            began = time.process_time()
            _reset(env, index)
            resetting += time.process_time() - began
            for place, reply in enumerate(episode):
                began, wall = time.process_time(), time.perf_counter()
                env.step(reply)
                wall, cpu = time.perf_counter() - wall, time.process_time() - began
                stepping += cpu
                least[index][place] = min(least[index][place], wall)
        step_times.append(stepping)
        times.append(stepping + resetting)
    steps = sum(map(len, replies))
    return {
        "steps_per_s": steps / median(step_times),
        "with_resets": steps / median(times),
        "unhindered": steps / sum(map(sum, least)),
    }


def _record(env: Env, index: int) -> list[Message | str]:
    """The replies of the oracle in an episode."""
    _reset(env, index)
    replies = []
    for reply in oracle_replies(env):
        replies.append(reply)
        _, _, terminated, truncated, _ = env.step(reply)
        if terminated or truncated:
            break
    return replies


def _reset(env: Env, index: int) -> None:
    env.reset(seed=index, options={"split": "test", "index": index})


if __name__ == "__main__":
    run(main)
