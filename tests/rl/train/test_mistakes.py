"""Mistakes in the input of `rl.train` that once ended in a traceback or an unhelpful message."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.privileges import permissions_hold
from tests.support.runs import TASKS, flags, train, training_error

ARITHMETIC = ("--env", "math/Arithmetic-v0")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--threads 100000", "--threads 100000: must be at most 1024"),
        (f"--seed {10**22}", f"--seed {10**22}: must be at most {2**63 - 1}"),
    ],
)
def test_a_number_too_large_names_its_flag(words: str, message: str) -> None:
    assert training_error(*ARITHMETIC, *words.split()) == message


def test_a_recipe_file_that_fails_says_where_and_why(tmp_path: Path) -> None:
    for name, text, message in (
        ("missing", "found = {}\n\nfound['x']\n", ", line 3: KeyError: 'x'"),
        ("deep", "def f():\n    return 1 / 0\nf()\n", ", line 2: ZeroDivisionError: division by zero"),
        ("elsewhere", "import json\njson.loads('')\n", ", line 2: JSONDecodeError: Expecting value: "),
    ):
        file = tmp_path / f"{name}.py"
        file.write_text(text)
        assert training_error(*ARITHMETIC, "--algo", str(file)).startswith(f"{file}{message}")
    file.write_text("x = (\n")
    assert "line 1" in training_error(*ARITHMETIC, "--algo", str(file))


def test_an_argument_that_an_environment_needs_is_named_with_its_flag(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        TASKS.read_text() + "\n\nclass Need(Low):\n    def __init__(self, level: int, *, hard: bool = False, **more):\n"
        "        super().__init__(**more)\n"
    )
    assert (
        training_error("--env", f"{file}:Need") == f"{file}:Need needs the argument 'level', as in --env-arg level=..."
    )
    result = train("--env", f"{file}:Need", "--env-arg", "level=2", "--dry-run")
    assert result.code == 0, result.err


@pytest.mark.parametrize(("key", "entry"), [("env", "math/Arithmetic-v0"), ("algo", "grpo")])
def test_a_list_may_be_asked_for_in_a_file_too(key: str, entry: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(f'{key} = "list"\n')
    result = train("--config", str(file))
    assert result.code == 0 and entry in result.out
    assert train(f"--{key}", "list").out == result.out


def test_an_environment_without_tasks_is_none_to_train_on() -> None:
    message = training_error("--env", "CartPole-v1")
    assert message == "CartPole-v1 has no tasks to play: CartPoleEnv does not derive from Env"


def test_a_sandbox_that_this_machine_lacks_at_the_first_reset_is_one_line(tmp_path: Path) -> None:
    file = tmp_path / "lacking.py"
    file.write_text(
        "from envs.math.arithmetic import Arithmetic\nfrom sandboxes import SandboxUnavailable\n\n\n"
        "class Lacking(Arithmetic):\n    def reset(self, **kwargs):\n        raise SandboxUnavailable('docker: no engine')\n"
    )
    assert training_error("--env", f"{file}:Lacking", "--out", str(tmp_path / "run")) == "docker: no engine"


@pytest.fixture
def read_only() -> Iterator[Path]:
    """A folder that this process may not write, also as root."""
    with tempfile.TemporaryDirectory() as name, permissions_hold():
        os.chmod(name, 0o555)
        yield Path(name)
        os.chmod(name, 0o755)


@pytest.fixture
def without_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """No model can be loaded: a fault that is reported now is found before that."""
    monkeypatch.setitem(sys.modules, "rl.train.session", None)


@pytest.mark.parametrize("is_dry", [False, True])
@pytest.mark.parametrize("inner", ["run", "runs/mine", ""])
def test_a_run_that_cannot_be_written_is_refused_before_the_model_is_loaded(
    inner: str, is_dry: bool, read_only: Path, without_session: None
) -> None:
    words = ("--env", "math/Arithmetic-v0", "--out", str(read_only / inner), *["--dry-run"] * is_dry)
    place = "not writable" if not inner else f"{read_only} is not writable"
    assert training_error(*words) == f"--out {read_only / inner}: {place}"


def test_a_run_without_a_name_is_refused_where_the_current_folder_cannot_be_written(
    read_only: Path, without_session: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(read_only)
    message = training_error(*ARITHMETIC, "--dry-run")
    assert message == f"--out runs/Arithmetic-v0-grpo-seed0: {read_only} is not writable"


def test_a_file_in_the_way_of_a_run_is_named_before_the_model_is_loaded(tmp_path: Path, without_session: None) -> None:
    (tmp_path / "file").touch()
    message = training_error(*ARITHMETIC, "--out", str(tmp_path / "file" / "a" / "b"), "--dry-run")
    assert message == f"--out {tmp_path}/file/a/b: {tmp_path}/file is a file"
    (tmp_path / "config.toml").touch()
    assert "there is a run already" in training_error(*ARITHMETIC, "--out", str(tmp_path), "--dry-run")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.toml", "file"]


def test_a_missing_logger_and_a_missing_login_are_found_before_the_model_is_loaded(
    without_session: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    assert "wandb is not installed" in training_error(*ARITHMETIC, "--logger", "wandb", "--dry-run")
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "token"))
    monkeypatch.delenv("HF_TOKEN", raising=False)
    message = training_error(*ARITHMETIC, "--push-to-hub", "ada/low", "--dry-run")
    assert message.startswith("--push-to-hub ada/low: ")


def test_a_dry_run_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = train(*ARITHMETIC, "--out", "runs/mine", "--dry-run")
    assert (result.code, list(tmp_path.iterdir())) == (0, []), result.err


def test_rewards_that_are_no_numbers_stop_a_run_which_can_be_resumed(tmp_path: Path) -> None:
    file = tmp_path / "late.py"
    file.write_text(
        "from math import nan\nfrom rl.recipes import grpo\n\n\ndef late(group):\n"
        "    return [nan if group.ticket.number >= 4 else reward for reward in group.rewards]\n\n\n"
        "recipe = grpo.recipe.but(shape=(late,))\n"
    )
    message = training_error(*flags("Low", updates=3, groups=2), "--algo", str(file), "--out", str(tmp_path / "run"))
    assert message.startswith("shape late: returned rewards that are not finite numbers; the update was not made")
    assert message.endswith(f"(the run in {tmp_path}/run can be resumed)")
