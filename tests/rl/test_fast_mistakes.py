"""Mistakes in flags are reported before anything heavy is imported."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from rl import config_file
from rl.cli import UserError
from tests.support.paths import ROOT


@pytest.mark.parametrize(
    ("module", "words", "hint"),
    [
        ("rl.train", ["--env", "math/Arithmetik-v0"], "math/Arithmetic-v0"),
        ("rl.train", ["--env", "math/Arithmetic-v0", "--env-arg", "levle=1"], "level"),
        ("rl.train", ["--env", "math/Arithmetic-v0", "--algo", "gpro"], "'grpo'"),
        ("rl.evaluate", ["--env", "math/Arithmetik-v0", "--policy", "tiny"], "math/Arithmetic-v0"),
        ("rl.train", ["--env", "math/Arithmetic-v0", "--model", "quen/x"], "no such folder here"),
        ("rl.evaluate", ["--env", "math/Arithmetic-v0", "--policy", "tinny"], "did you mean tiny?"),
        ("rl.evaluate", ["--env", "math/Arithmetic-v0", "--policy", ""], "--policy '': model '': give tiny, "),
        ("rl.evaluate", ["--env", "math/Arithmetic-v0", "--policy", ""], "scripts are random, oracle"),
        ("rl.evaluate", ["--env", "math/Arithmetic-v0", "--policy", "quen/x"], "no such folder here"),
    ],
)
def test_a_wrong_name_is_reported_without_importing_torch(module: str, words: list[str], hint: str) -> None:
    code = f"""
import sys
from rl.cli import run
from {module}.__main__ import main
try:
    run(main)
finally:
    assert not {{"torch", "transformers"}} & sys.modules.keys()
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-c", code, *words]
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120)
    assert result.returncode == 2 and hint in result.stderr and result.stderr.count("\n") == 1


@pytest.mark.parametrize("value", ["3", "1.5"])
def test_a_number_in_place_of_a_text_is_named_with_its_file_and_key(value: str) -> None:
    with pytest.raises(UserError, match=f"^c.toml: env = {value}: must be a text in quotes"):
        config_file.parse(f"env = {value}", "c.toml")
