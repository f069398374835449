"""A human plays in the terminal."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import envs
from rl.evaluate.clients.human import parse_line
from rl.evaluate.runner import tickets
from tests.support.paths import ROOT

ARITHMETIC, GUESS = "math/Arithmetic-v0", "games/GuessNumber-v0"


def test_a_human_plays_in_the_terminal_and_gets_a_report(command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    solutions = {task.id: str(task.answer) for task in envs.make(ARITHMETIC).unwrapped.load("test")}  # type: ignore[attr-defined]
    tasks = [f"test/{ticket.index}" for ticket in tickets(len(solutions), 3, 1, 0)]
    lines = [
        solutions[tasks[0]],
        '{"role": "user", "content": "no"}',
        "wrong",
        json.dumps({"role": "assistant", "content": solutions[tasks[2]]}),
    ]
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(lines) + "\n"))
    status, report, err = command("--env", ARITHMETIC, "--policy", "human", "--episodes", 3)
    assert (status, report.policy) == (0, "human")
    assert [(row.task, row.success) for row in report.per_task] == [
        (tasks[0], [True]),
        (tasks[1], [False]),
        (tasks[2], [True]),
    ]
    for line in (
        f"# task {tasks[0]}",
        "# not a reply: its role is not 'assistant'; once more",
        "success, 1 turn, return 1",
    ):
        assert line in err


def test_a_human_who_leaves_gets_a_report_of_what_was_played_whole(
    command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("1\n2\n"))
    status, report, err = command("--env", ARITHMETIC, "--policy", "human", "--episodes", 3, "--samples", 2)
    assert (status, report.episodes, [len(row.success) for row in report.per_task]) == (1, 1, [2])
    assert err.count("# task ") == 3
    assert ", sample 2\n" in err
    assert err.endswith("the input ended: 1 of 3 tasks were played to their end\n")
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    status, report, err = command("--env", ARITHMETIC, "--policy", "human", "--episodes", 3)
    assert (status, report) == (1, None)
    assert err.endswith("error: the input ended: 0 of 3 tasks were played to their end\n")


def test_a_human_reads_every_new_message_once_over_many_turns(tmp_path: Path) -> None:
    result = subprocess.run(
        (sys.executable, "-m", "rl.evaluate", "--env", GUESS, "--policy", "human", "--episodes", "1"),
        input="?\n" * 9,
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert result.returncode == 0
    lines = [line.removeprefix("> ") for line in result.stderr.splitlines()]
    turns = envs.make(GUESS).unwrapped.max_turns  # type: ignore[attr-defined]
    assert sum(line.startswith("user: ") for line in lines) == 1 + turns  # the opening, and an answer to each guess
    assert f"turn_limit, no success, {turns} turns, return 0" in lines[-1]
    assert "success" in result.stdout
    assert "user:" not in result.stdout


def test_a_line_is_a_message_only_where_it_is_the_json_of_one() -> None:
    assert parse_line('{"role": "assistant", "content": "a"}') == {"role": "assistant", "content": "a"}
    for line in ("7", "{}", '{"a": 1}', "", "[1]", '"x"'):
        assert parse_line(line) == {"role": "assistant", "content": line}
