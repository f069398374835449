"""An environment that closes or replaces standard output: one line, and the result is kept."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from envs.exits import is_stdout_lost
from rl.cli import run
from tests.support.paths import ROOT

ENV = """
import os, sys
from envs.math.arithmetic import Arithmetic

class Game(Arithmetic):
    def reply(self, action):
        if not hasattr(Game, "done"):
            Game.done = True
            {act}
        return super().reply(action)
"""


@pytest.mark.parametrize("act", ["os.close(1)", "sys.stdout = None", "sys.stdout = object()", "sys.stdout.close()"])
def test_a_lost_output_is_one_line_and_the_result_is_kept(act: str, tmp_path: Path) -> None:
    (tmp_path / "closing.py").write_text(ENV.format(act=act))
    words = "-m rl.evaluate --env closing.py:Game --policy oracle --episodes 3 --json x.json"
    environment = {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, *words.split()]
    result = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    line = "rl.evaluate: error: standard output is closed, or was replaced by the code of an environment or a policy"
    assert result.returncode == 2 and result.stderr.startswith(line) and result.stderr.count("\n") == 1, result.stderr
    assert json.loads((tmp_path / "x.json").read_text())["success"]["mean"] == 1.0
    assert (tmp_path / "x.rollouts.jsonl").is_file()


def test_an_output_in_memory_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    assert not is_stdout_lost()
    sys.stdout.close()
    assert is_stdout_lost() and sys.stdout is None


def test_a_character_that_the_encoding_lacks_is_a_question_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    stdout = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stdout)
    with pytest.raises(SystemExit) as done:
        run(lambda: print("▂ and a"))
    stdout.flush()
    assert not done.value.code and stdout.buffer.getvalue() == b"? and a\n"
