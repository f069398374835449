"""Mistakes in the input of `rl.train` that once ended in a traceback or an unhelpful message."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.runs import TASKS, train, training_error

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
