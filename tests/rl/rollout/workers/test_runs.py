"""A run with `--workers` plays what a run without plays, is continued with any number of them, and leaves none behind."""

from __future__ import annotations

import math
import re
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from tests.support.forked_host import forked_processes
from tests.support.runs import Child, flags, metrics, rollouts, train, train_run

GAME = f"{Path(__file__).parents[3] / 'support' / 'seats.py'}:Lows"
SLOW = ("an opponent", "blocking, in a sandbox")
RUNS = {
    "one agent": flags("Talk", updates=2, eval_every=1),
    "blocking, in a sandbox": flags("code/Functions-v0", updates=1, eval_episodes=2, turn_tokens=12),
    "several seats": flags(GAME, updates=2),
    "an opponent": flags(GAME, updates=2, opponent="oracle"),
    "wrappers around environments": flags("Steps", updates=2, algo="ui_s1"),
}


TURN = (
    "observation",
    "reply",
    "reward",
    "rewards",
    "state",
    "valid",
    "fresh",
    "finish",
    "context_ids",
    "ids",
    "metrics",
)


def replies(folder: Path, update: int) -> list[Any]:
    """The episodes of an update without what is computed from log-probabilities."""
    rows = rollouts(folder, update)
    return [{**row, "turns": [{key: turn[key] for key in TURN} for turn in row["turns"]]} for row in rows]


def assert_alike(one: Path, other: Path) -> None:
    """Check that tokens and rewards are equal, and metrics but for the rounding of log-probabilities."""
    lines, other_lines = metrics(one), metrics(other)
    assert len(lines) == len(other_lines) > 0
    for line, other_line in zip(lines, other_lines, strict=True):
        assert line.keys() == other_line.keys()
        for key, value in line.items():
            is_close = isinstance(value, float) and math.isclose(value, other_line[key], rel_tol=1e-3, abs_tol=1e-4)
            assert is_close or str(value) == str(other_line[key]), (key, value, other_line[key])
        assert replies(one, line["update"]) == replies(other, line["update"])


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in RUNS])
def test_a_run_with_workers_plays_what_a_run_without_plays(name: str, tmp_path: Path) -> None:
    words = RUNS[name]
    alone = train_run(*words, out=tmp_path / "alone")
    with nullcontext() if name == "one agent" else forked_processes():
        workers = train_run(*words, "--workers", "2", out=tmp_path / "workers")
    assert_alike(alone, workers)


def test_a_run_that_is_killed_goes_on_with_another_number_of_workers(tmp_path: Path) -> None:
    words, out = flags("Talk", updates=4, lag=0, save_every=1), tmp_path / "run"
    alone = train_run(*words, out=tmp_path / "alone")
    moment = ("rl.train.loop:Loop", "_update", 3)
    Child(*words, "--workers", "2", "--out", str(out), log=tmp_path / "log", die=moment).wait()
    assert re.search(r"^workers = 2$", (out / "config.toml").read_text(), re.MULTILINE)
    again = train("--resume", "--out", str(out), "--workers", "1")
    assert again.code == 0, again.err
    assert_alike(alone, out)
