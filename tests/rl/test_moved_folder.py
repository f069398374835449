"""An environment that changes the working directory moves neither what a command writes nor what it reads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import envs.__main__
import rl.attribution
import rl.evaluate.__main__
import rl.train.__main__
import rl.view
from rl.cli import run
from rl.spec_paths import absolute_path, as_typed, check_command, forget_typed

MOVING = """
import os
from envs.math.arithmetic import Arithmetic

def move(place):
    if place == "{place}":
        os.chdir("{folder}")

move("import")

class Game(Arithmetic):
    def __init__(self, *, switch: bool = False, **arguments):
        super().__init__(**arguments)
        move("init")

    def reply(self, action):
        move("reply")
        return super().reply(action)
"""
QUICK = "--updates 1 --groups 2 --size 2 --eval-episodes 2 --cold-start 0 --logger none --save-every 1"


@pytest.fixture(params=["import", "init", "reply"])
def folder(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with an environment that leaves it at its import, in its constructor or in `step`."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "moving.py").write_text(MOVING.format(place=request.param, folder=tmp_path / "elsewhere"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_an_evaluation_reads_and_writes_where_it_began(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ["--env", "moving.py:Game", "--policy", "oracle", "--episodes", "2"]
    assert rl.evaluate.__main__.main([*words, "--json", "x.json"]) == 0
    monkeypatch.chdir(folder)
    words[3] = "replay:replies.jsonl"
    tasks = json.loads((folder / "x.json").read_text())["per_task"]
    lines = [json.dumps({"task": task["task"], "completion": "1"}) + "\n" for task in tasks]
    (folder / "replies.jsonl").write_text("".join(lines))
    assert rl.evaluate.__main__.main([*words, "--json", "y.json"]) == 0
    monkeypatch.chdir(folder)
    words[3] = "oracle"
    assert rl.evaluate.__main__.main([*words, "--json", "z.json", "--compare", "x.json"]) == 0
    assert not [*(folder / "elsewhere").iterdir()] and (folder / "z.rollouts.jsonl").is_file()
    results = [json.loads((folder / f"{name}.json").read_text()) for name in "xyz"]
    assert [result["env"] for result in results] == ["moving.py:Game"] * 3
    assert [result["policy"] for result in results] == ["oracle", "replay:replies.jsonl", "oracle"]


def test_a_run_is_written_where_it_began_and_resumed(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for words in (f"--env moving.py:Game {QUICK}", "--out runs/moving-Game-grpo-seed0 --resume --updates 2"):
        assert rl.train.__main__.main(words.split()) == 0
        assert "run folder: runs/moving-Game-grpo-seed0\n" in capfd.readouterr().out
        assert not [*(folder / "elsewhere").iterdir()]
        monkeypatch.chdir(folder)
    words = "--env moving.py:Game --policy runs/moving-Game-grpo-seed0 --episodes 2 --json x.json"
    assert rl.evaluate.__main__.main(words.split()) == 0
    assert json.loads((folder / "x.json").read_text())["policy"] == "runs/moving-Game-grpo-seed0"
    monkeypatch.chdir(folder)
    assert rl.view.main(["runs/moving-Game-grpo-seed0", "--html", "x.html"]) == 0
    assert " episodes in x.html (" in capfd.readouterr().out


def test_an_attribution_is_written_where_it_began(folder: Path) -> None:
    words = "--env moving.py:Game --policy oracle --switch switch=false:true --episodes 2 --json x.json"
    assert rl.attribution.main(words.split()) == 0
    assert json.loads((folder / "x.json").read_text())["env"] == "moving.py:Game"


def test_the_doctor_finds_the_file_again(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    status = envs.__main__.main(["check", "moving.py:Game", "--tasks", "1"])
    out = capfd.readouterr().out
    assert status == 0 and "FAIL" not in out, out


def test_an_error_shows_a_path_as_it_was_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.py").write_text(MOVING.format(place="never", folder=tmp_path))
    monkeypatch.chdir(tmp_path)
    for path in ("mine.py", f"../{tmp_path.name}/mine.py", str(tmp_path / "mine.py")):
        with pytest.raises(SystemExit):
            run(lambda path=path: rl.train.__main__.main(["--env", f"{path}:Gaem"]))
        assert f" in {path};" in capfd.readouterr().err


def test_only_whole_paths_are_shown_as_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    forget_typed()
    absolute_path("./r/")
    assert as_typed(tmp_path / "r" / "config.toml") == "./r/config.toml"
    assert as_typed(f"in {tmp_path}/r: it is") == "in ./r: it is"
    assert (
        as_typed(f"{tmp_path}/runs {tmp_path}/r.json /x{tmp_path}/r")
        == f"{tmp_path}/runs {tmp_path}/r.json /x{tmp_path}/r"
    )
    forget_typed()
    assert as_typed(tmp_path / "r") == str(tmp_path / "r")


def test_the_command_that_checks_has_the_arguments_and_the_folder_of_the_data() -> None:
    command = check_command("code/MBPP-v0", ["timeout=2", "sandbox=local"], "my data")
    assert command == (
        "python -m envs check code/MBPP-v0 --env-arg timeout=2 --env-arg sandbox=local --data-root 'my data'"
    )
