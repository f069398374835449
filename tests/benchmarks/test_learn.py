"""Learning curves: what a task's name stands for, and what the table says of few seeds and of none that rises."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest

from benchmarks import learn

ROOT = Path(__file__).resolve().parents[2]


def test_a_task_is_an_id_with_arguments() -> None:
    task = "web/Widgets-v0 kind=press max_turns=4"
    assert learn.with_arguments(task) == (
        "web/Widgets-v0",
        ["--env-arg", "kind=press", "--env-arg", "max_turns=4"],
    )
    assert learn.name_of(task) == "web-Widgets-v0-press-4"
    names = [learn.name_of(task) for task in learn.TASKS]
    assert len(set(names)) == len(names)


def test_scripts_play_as_the_policy_of_the_runs_is_measured() -> None:
    assert learn.scripted("multi/Relay-v0", [], "oracle") == 1.0
    assert learn.scripted("multi/Relay-v0", [], "random") < 0.05  # a random teammate, not the oracle
    alone = learn.scripted("multi/TicTacToe-v0", ["--env-arg", "opponent=minimax"], "random")
    assert alone < learn.scripted("multi/TicTacToe-v0", [], "random")


def result(gains: list[float], **changes: Any) -> dict[str, Any]:
    curve = {"reward": [0.1, 0.15, 0.2, 0.4, 0.4, 0.4, 0.6, 0.65, 0.7]}
    runs = [
        {"seed": seed, "success_before": 0.4, "success_after": 0.4 + gain, **curve} for seed, gain in enumerate(gains)
    ]
    mean = sum(gains) / len(gains)
    low, high = learn.interval(gains)
    levels = {
        "success_before": {"mean": 0.4, "seeds": [0.4] * len(gains)},
        "success_after": {"mean": 0.4 + mean, "seeds": [run["success_after"] for run in runs]},
    }
    about = {"env": "a/B-v0 level=0", "flags": ["--updates", "9"], "date": "2026-01-02T03:04", "cpu_seconds": 61.7}
    shares = {"random": 0.05, "oracle": 1.0, "gain": mean, "gain_low": low, "gain_high": high}
    return {**about, **shares, **levels, "runs": runs, **changes}


@pytest.mark.parametrize(
    "gains, words",
    [
        ([0.2, 0.3, 0.1, 0.2, 0.2], "+0.20 (0.14 to 0.26)"),
        ([0.2, -0.2, 0.1, -0.1, 0.0], "+0.00 (-0.12 to 0.12), **flat**"),
        ([0.2], "+0.20"),
    ],
)
def test_the_table_has_a_line_for_each_result(tmp_path: Path, gains: list[float], words: str) -> None:
    (tmp_path / "learn-a-B-v0-0.json").write_text(json.dumps(result(gains)))
    (tmp_path / "learn-a-B-v0-full.json").write_text(json.dumps(result(gains, flags=["--env-arg", "style=full"])))
    *_, line = runpy.run_path(str(ROOT / "docs" / "learnt.py"))["table"](tmp_path).splitlines()
    assert line == (
        "| [`a/B-v0`](../benchmarks/results/learn-a-B-v0-0.png) `level=0 --updates 9` "
        f"| {len(gains)} | 0.05 | 0.40 | {0.4 + sum(gains) / len(gains):.2f} | 1.00 | {words} | 0.15 > 0.65 "
        "| 62 | [2026-01-02](../benchmarks/results/learn-a-B-v0-0.json) |"
    )
