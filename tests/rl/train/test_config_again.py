"""`--config` with a run's own settings: what of them holds when flags replace others, and from where."""

from __future__ import annotations

import os
import shutil
import tomllib
from pathlib import Path
from typing import Any

import pytest

from rl.evaluate.__main__ import main as evaluate
from rl.methods.recipe import SLOTS, load, words
from rl.settings import DERIVED_FROM, Settings, located, read, settle, write
from tests.support.runs import TASKS, small_model, train, trained

LOW = ("--env", f"{TASKS}:Low", "--threads", "1", "--groups", "2", "--size", "2", "--eval-episodes", "0")


def dry(*given: str) -> tuple[dict[str, Any], str]:
    """The settings that a dry run prints, and what it says before them."""
    ended = train(*given, "--dry-run")
    assert ended.code == 0, ended.err
    at = ended.out.index("env =")
    return tomllib.loads(ended.out[at:]), ended.out[:at]


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The settings of a run of the bundled model, as it writes them."""
    file = tmp_path_factory.mktemp("first") / "config.toml"
    ended = train(*LOW, "--seed", "3", "--penalty", "kl_k2:coef=0.01", "--dry-run")
    assert ended.code == 0, ended.err
    file.write_text(ended.out[ended.out.index("env =") :])
    return str(file)


def test_another_method_is_trained_as_it_is_and_not_with_the_slots_of_the_first(first: str) -> None:
    settings, said = dry("--config", first, "--algo", "dapo")
    assert {slot: settings[slot] for slot in SLOTS} == words(load("dapo"))
    assert (settings["algo"], settings["seed"]) == ("dapo", 3)
    assert f"left out of {first}, because flags replace what it followed from: {', '.join(SLOTS)}\n" in said
    kept, _ = dry("--config", first, "--algo", "dapo", "--ratio", "turn")
    assert {slot: kept[slot] for slot in SLOTS} == {**words(load("dapo")), "ratio": "turn"}


def test_the_same_method_keeps_the_slots_of_the_file(first: str) -> None:
    for more in ([], ["--algo", "grpo"]):
        settings, said = dry("--config", first, *more)
        assert settings["penalty"] == ["kl_k2:coef=0.01"]
        assert "left out" not in said


def test_slots_that_a_file_names_without_a_method_are_meant_for_any() -> None:
    assert settle({"algo": "dapo"}, {"penalty": ["kl_k2"]})[1] == {"penalty": ["kl_k2"]}


def test_another_model_gets_the_defaults_of_its_own(first: str) -> None:
    alone, _ = dry(*LOW, "--model", small_model())
    settings, said = dry("--config", first, "--model", small_model())
    assert {name: settings[name] for name in alone if name not in SLOTS} == {
        **{name: alone[name] for name in alone if name not in SLOTS},
        "seed": 3,
    }
    assert (settings["lr"], settings["turn_tokens"], settings["cold_start"]) == (1e-6, 256, 0)
    assert settings["penalty"] == ["kl_k2:coef=0.01"]
    names = "lr, updates, cold_start, cold_start_until, turn_tokens"
    assert f"left out of {first}, because flags replace what it followed from: {names}\n" in said


def test_what_was_chosen_stays_whatever_the_model_is(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(write(Settings(env="a", lr=0.5).resolved(1), {}))
    settings, _ = settle({"model": "b", "updates": 9}, read(file))
    assert (settings.lr, settings.updates, settings.cold_start) == (0.5, 9, None)
    again = settings.resolved(1)
    assert set(again.derived) == {"cold_start", "cold_start_until", "turn_tokens"}


@pytest.mark.parametrize(
    ("name", "value"), {"env": "b", "env_arg": ["level=2"], "model": "b", "lora": 4, "max_tokens": 99}.items()
)
def test_whatever_defaults_depend_on_derives_them_anew(name: str, value: Any) -> None:
    before = Settings(env="a", lora=8, model="c").resolved(1)
    file = {**vars(before)}
    assert name in DERIVED_FROM and "lora_alpha" in before.derived
    settings, _ = settle({name: value}, file)
    assert [getattr(settings, one) for one in before.derived] == [None] * len(before.derived)
    unchanged, _ = settle({name: file[name], "seed": 5}, file)
    assert unchanged == Settings(**{**file, "seed": 5})


def test_a_wrong_list_of_what_was_derived_is_one_line(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('env = "a"\nderived = "lr"\n')
    ended = train("--config", str(file))
    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert "derived = 'lr': must be a list such as [\"lr\"]" in ended.err


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an environment, a recipe and a model of its own, in which the test works."""
    home = tmp_path / "home"
    home.mkdir()
    shutil.copy(TASKS, home / "tasks.py")
    shutil.copytree(small_model(), home / "model")
    (home / "mine.py").write_text("from rl.methods.recipes.grpo import recipe\n")
    (home / "data").mkdir()
    monkeypatch.chdir(home)
    return home


def test_a_run_of_relative_paths_goes_on_from_another_folder(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNWISE_DATA", "")
    given = ["--env", "tasks.py:Low", "--algo", "mine.py", "--model", "model", "--data-root", "data", *LOW[2:]]
    out = trained(*given, "--turn-tokens", "6", "--updates", "1", out=elsewhere / "run")
    config = read(out / "config.toml")
    assert config["env"] == f"{elsewhere}/tasks.py:Low" and config["algo"] == f"{elsewhere}/mine.py"
    assert config["model"] == f"{elsewhere}/model" and config["data_root"] == f"{elsewhere}/data"
    again = train("--resume", "--out", "run", "--env", "tasks.py:Low", "--algo", "./mine.py", "--updates", "2")
    assert again.code == 0, again.err
    os.chdir(elsewhere.parent)
    ended = train("--resume", "--out", str(out), "--updates", "3")
    assert ended.code == 0, ended.err
    assert "resuming after update 2" in ended.out


def test_a_run_is_known_by_its_environment_however_the_path_is_written(
    elsewhere: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--env", "tasks.py:Low", "--model", "model", *LOW[2:], "--turn-tokens", "6", "--updates", "0"]
    trained(*given, out=elsewhere / "run")
    for written in ("tasks.py:Low", "./tasks.py:Low", f"{elsewhere}/tasks.py:Low"):
        assert evaluate(["--env", written, "--policy", "run", "--episodes", "2"]) == 0
        assert "as in run: --turn-tokens 6" in capsys.readouterr().err.replace(f"{elsewhere}/", "")


def test_only_what_is_a_path_is_made_one(elsewhere: Path) -> None:
    for name in ("math/Arithmetic-v0", "tests.support.tasks:Low", "grpo", ""):
        assert located(name) == name
    (elsewhere / "tiny").mkdir()
    read_back = {"env": "math/Sets-v0", "model": "tiny"}
    (elsewhere / "mine.toml").write_text(write(Settings(**read_back), {}))
    found = read("mine.toml")
    assert {name: found[name] for name in read_back} == read_back
    assert found["data_root"] == ""
