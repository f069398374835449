"""Mistakes in flags are reported before anything heavy is imported."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from rl import config_file
from rl.cli import UserError
from tests.support.paths import ROOT

MISTAKES = {
    "rl.train": [
        (["--env", "math/Arithmetik-v0"], "math/Arithmetic-v0"),
        (["--env", "math/Arithmetic-v0", "--env-arg", "levle=1"], "level"),
        (["--env", "math/Arithmetic-v0", "--algo", "gpro"], "'grpo'"),
        (["--env", "math/Arithmetic-v0", "--model", "quen/x"], "no such folder here"),
    ],
    "rl.evaluate": [
        (["--env", "math/Arithmetik-v0", "--policy", "tiny"], "math/Arithmetic-v0"),
        (["--env", "math/Arithmetic-v0", "--policy", "tinny"], "did you mean tiny?"),
        (["--env", "math/Arithmetic-v0", "--policy", ""], "--policy '': model '': give tiny, "),
        (["--env", "math/Arithmetic-v0", "--policy", ""], "scripts are random, oracle"),
        (["--env", "math/Arithmetic-v0", "--policy", "quen/x"], "no such folder here"),
    ],
}


@pytest.mark.parametrize("module", MISTAKES)
def test_a_wrong_name_is_reported_without_importing_torch(module: str) -> None:
    """One process makes all mistakes with a command, and prints what each of them led to."""
    code = f"""
import contextlib, io, json, sys
from rl.cli import run
from {module}.__main__ import main
for words in json.loads(sys.argv[1]):
    sys.argv[1:], errors = words, io.StringIO()
    with contextlib.redirect_stderr(errors):
        try:
            run(main)
        except SystemExit as exit:
            status = exit.code
    print(json.dumps([status, errors.getvalue(), sorted({{"torch", "transformers"}} & sys.modules.keys())]))
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-c", code, json.dumps([words for words, _ in MISTAKES[module]])]
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120)
    assert (result.returncode, result.stderr) == (0, "")
    for (words, hint), line in zip(MISTAKES[module], result.stdout.splitlines(), strict=True):
        status, message, heavy = json.loads(line)
        assert status == 2 and hint in message and message.count("\n") == 1, words
        assert not heavy, words


@pytest.mark.parametrize("value", ["3", "1.5"])
def test_a_number_in_place_of_a_text_is_named_with_its_file_and_key(value: str) -> None:
    with pytest.raises(UserError, match=f"^c.toml: env = {value}: must be a text in quotes"):
        config_file.parse(f"env = {value}", "c.toml")
