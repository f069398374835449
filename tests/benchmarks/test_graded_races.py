"""The race in grading: both ways say the same of the same programs."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import sandboxes
from benchmarks.support.graded_races import graded
from tests.support.paths import ROOT
from tests.support.sandbox_hosts import why_not

ROW = {
    "task_id": "Toy/0",
    "prompt": 'def plus(n):\n    """Add one."""\n',
    "entry_point": "plus",
    "canonical_solution": "    return n + 1\n",
    "test": "def check(candidate):\n    assert candidate(1) == 2\n",
}


def test_the_rival_tells_right_from_wrong_and_from_late() -> None:
    programs = ["x = 1\nassert x == 1", "assert False", "import sys; sys.exit(0)", "while True: pass"]
    said = subprocess.run(
        [sys.executable, "-m", "benchmarks.support.forked_checks"],
        input="".join(json.dumps(program) + "\n" for program in programs),
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=120,
    )
    assert said.stdout.split("\n")[:-1] == ["passed", "failed", "failed", "timed out"]


def test_the_rival_serves_each_socket_it_is_given() -> None:
    pairs = [socket.socketpair() for _ in range(2)]
    given = [theirs.fileno() for _, theirs in pairs]
    command = [sys.executable, "-m", "benchmarks.support.forked_checks", *map(str, given)]
    with subprocess.Popen(command, pass_fds=given, cwd=ROOT) as server:
        for _, theirs in pairs:
            theirs.close()
        for (ours, _), program, word in zip(pairs, ["pass", "assert 0"], ["passed", "failed"], strict=True):
            with ours, ours.makefile("rw") as wire:
                print(json.dumps(program), file=wire, flush=True)
                assert wire.readline().strip() == word
        assert server.wait(60) == 0


def test_both_ways_pass_the_solutions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if reason := why_not("local"):
        pytest.skip(reason)
    (tmp_path / "humaneval").mkdir()
    (tmp_path / "humaneval" / "test.jsonl").write_text(json.dumps(ROW))
    monkeypatch.setenv("TURNWISE_DATA", str(tmp_path))
    monkeypatch.chdir(ROOT)
    absent: list[str] = []
    with sandboxes.open("local") as sandbox:
        for race in graded(sandbox, absent):
            assert race.ours() == race.says == "passed"
            assert [rival() for rival in race.rivals.values()] == ["passed"]
    assert absent == []


def test_without_data_the_race_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNWISE_DATA", str(tmp_path))
    monkeypatch.setattr("envs.data.find_spec", lambda name: None)
    absent: list[str] = []
    assert list(graded(None, absent)) == []  # type: ignore[arg-type]
    assert absent == ["TURNWISE_DATA names no folder with humaneval/*.jsonl"]
