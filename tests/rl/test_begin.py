"""How commands begin: Ctrl-C while they import their modules, and keys that are given twice."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import envs
from envs.multi.opponents import make_opponent
from envs.multi.tic_tac_toe import TicTacToe
from rl.evaluate import strategies
from rl.prompt_options import parse_json_values, parse_template_args
from rl.train.seats.pool import PoolOptions
from tests.support.paths import ROOT


@pytest.mark.parametrize("module", ["rl.train", "rl.evaluate", "rl.attribution", "rl.view", "envs"])
def test_ctrl_c_during_the_imports_is_one_line(module: str, tmp_path: Path) -> None:
    (tmp_path / "gymnasium.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-m", module, "--help"]
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60)
    assert (result.returncode, result.stdout, result.stderr) == (130, "", f"\n{module}: interrupted\n")


def test_a_key_with_two_values_is_refused_wherever_keys_have_values() -> None:
    readers = (
        lambda: envs.arguments(["level=2", "level=3"], envs.entry("math/Arithmetic-v0"), "--env-arg"),
        lambda: make_opponent("minimax:depth=2,depth=3", TicTacToe),
        lambda: PoolOptions.parse("pool:every=2,every=3"),
        lambda: strategies.parse("best_of:n=2,n=3"),
        lambda: parse_template_args(["a=1", "a=2"]),
        lambda: parse_json_values("--api-arg", ["a=1", "a=2"]),
    )
    for read in readers:
        with pytest.raises(ValueError, match=r"is given twice( with different values)?; give it once"):
            read()


def test_an_argument_of_an_environment_may_be_repeated_with_the_same_value() -> None:
    words = ["level=2", "level=2"]
    assert envs.arguments(words, envs.entry("math/Arithmetic-v0"), "--env-arg") == {"level": 2}
