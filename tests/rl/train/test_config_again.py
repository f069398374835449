"""`--config` with the config.toml of a run: which of its settings apply when flags replace others, and paths in it."""

from __future__ import annotations

import argparse
import os
import shutil
import tomllib
from pathlib import Path
from typing import Any

import pytest

from rl.config_file import code_files, code_sources, merge, read, to_toml
from rl.defaults import MOST_LR
from rl.evaluate.__main__ import main as evaluate
from rl.methods.recipe import SLOTS, load, words
from rl.settings import DERIVED_FROM, Settings, add_flags
from rl.spec_paths import absolute_spec
from rl.train.__main__ import TINY_SCHEDULE, build_recipe
from tests.support.runs import TASKS, flags, small_model, train, train_run

LOW = ("--env", f"{TASKS}:Low", "--threads", "1", "--groups", "2", "--size", "2", "--eval-episodes", "0")


def dry_run(*command: str) -> tuple[dict[str, Any], str]:
    """Return the settings that a dry run prints, and its output before them."""
    result = train(*command, "--dry-run")
    assert result.code == 0, result.err
    at = result.out.index("env =")
    return tomllib.loads(result.out[at:]), result.out[:at]


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The config.toml of a run of the bundled model."""
    file = tmp_path_factory.mktemp("first") / "config.toml"
    result = train(*LOW, "--seed", "3", "--penalty", "kl_k2:coef=0.01", "--dry-run")
    assert result.code == 0, result.err
    file.write_text(result.out[result.out.index("env =") :])
    return str(file)


def test_another_method_is_trained_as_it_is_and_not_with_the_slots_of_the_first(first: str) -> None:
    settings, output = dry_run("--config", first, "--algo", "dapo")
    assert {slot: settings[slot] for slot in SLOTS} == {**words(load("dapo")), "schedule": TINY_SCHEDULE}
    assert (settings["algo"], settings["seed"]) == ("dapo", 3)
    assert f"ignored in {first}, because flags replace what they came from: {', '.join(SLOTS)}\n" in output
    mixed_settings, _ = dry_run("--config", first, "--algo", "dapo", "--ratio", "turn")
    assert {slot: mixed_settings[slot] for slot in SLOTS} == {
        **words(load("dapo")),
        "schedule": TINY_SCHEDULE,
        "ratio": "turn",
    }


def test_the_same_method_keeps_the_slots_of_the_file(first: str) -> None:
    for more in ([], ["--algo", "grpo"]):
        settings, output = dry_run("--config", first, *more)
        assert settings["penalty"] == ["kl_k2:coef=0.01"]
        assert "ignored in" not in output


def test_what_was_chosen_for_a_cold_start_ends_with_it(first: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    text = Path(first).read_text().replace('cold_start_from = ""', 'cold_start_from = "/runs/recall"')
    file.write_text(text)
    settings, output = dry_run("--config", str(file), "--cold-start", "0")
    assert (settings["cold_start"], settings["cold_start_from"]) == (0, "")
    assert f"ignored in {file}, because flags replace what they came from: cold_start_from\n" in output
    assert merge({"cold_start": 5}, read(file))[0].cold_start_from == "/runs/recall"
    _, output = dry_run("--config", first, "--cold-start", "0")
    assert "ignored in" not in output
    before = {"env": "a", "cold_start": 5, "cold_start_until": 0.7, "derived": ["lr"]}
    assert merge({"cold_start": 0}, before)[0].cold_start_until is None
    assert merge({"cold_start": 0, "cold_start_until": 0.7}, before)[0].cold_start_until == 0.7
    without = {**before, "cold_start": 0, "cold_start_from": "/runs/recall"}  # nothing is switched off
    settings_again = merge({"cold_start": 0}, without)[0]
    assert (settings_again.cold_start_until, settings_again.cold_start_from) == (0.7, "/runs/recall")


def test_slots_that_a_file_names_without_a_method_are_meant_for_any() -> None:
    assert merge({"algo": "dapo"}, {"penalty": ["kl_k2"]})[1] == {"penalty": ["kl_k2"]}


def test_another_model_gets_the_defaults_of_its_own(first: str) -> None:
    alone, _ = dry_run(*LOW, "--model", small_model())
    settings, output = dry_run("--config", first, "--model", small_model())
    assert {name: settings[name] for name in alone if name not in SLOTS} == {
        **{name: alone[name] for name in alone if name not in SLOTS},
        "seed": 3,
    }
    assert (settings["lr"], settings["turn_tokens"], settings["cold_start"]) == (MOST_LR, 1024, 0)
    assert settings["penalty"] == ["kl_k2:coef=0.01"]
    names = (
        "lr, minibatches, updates, cold_start, cold_start_until, max_tokens, turn_tokens, dtype, engine_dtype, "
        "decoupled, overlap, checkpoint_activations"
    )
    assert f"ignored in {first}, because flags replace what they came from: {names}\n" in output


def test_what_was_chosen_stays_whatever_the_model_is(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(to_toml(Settings(env="a", lr=0.5).with_defaults(1), {}))
    settings, _ = merge({"model": "b", "updates": 9}, read(file))
    assert (settings.lr, settings.updates, settings.cold_start) == (0.5, 9, None)
    again = settings.with_defaults(1)
    assert set(again.derived) == {
        *("critic_lr", "minibatches", "cold_start", "cold_start_until", "max_tokens", "turn_tokens"),
    }


@pytest.mark.parametrize(
    ("name", "value"), {"env": "b", "env_arg": ["level=2"], "model": "b", "lora": 4, "max_tokens": 99}.items()
)
def test_whatever_defaults_depend_on_derives_them_anew(name: str, value: Any) -> None:
    before = Settings(env="a", lora=8, model="c").with_defaults(1)
    file = {**vars(before)}
    assert name in DERIVED_FROM and "lora_alpha" in before.derived
    settings, _ = merge({name: value}, file)
    assert {getattr(settings, other) for other in before.derived if other != name} == {None}
    same_settings, _ = merge({name: file[name], "seed": 5}, file)
    derived = [other for other in before.derived if other != name]  # what a flag names was not derived
    assert same_settings == Settings(**{**file, "seed": 5, "derived": derived})


def test_a_wrong_list_of_what_was_derived_is_one_line(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('env = "a"\nderived = "lr"\n')
    result = train("--config", str(file))
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert 'derived = "lr": must be a list such as ["lr"]' in result.err


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory of the test: a folder with an environment, a recipe and a model."""
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
    command = ["--env", "tasks.py:Low", "--algo", "mine.py", "--model", "model", "--data-root", "data", *LOW[2:]]
    out = train_run(*command, "--turn-tokens", "6", "--updates", "1", out=elsewhere / "run")
    config = read(out / "config.toml")
    assert config["env"] == f"{elsewhere}/tasks.py:Low" and config["algo"] == f"{elsewhere}/mine.py"
    assert config["model"] == f"{elsewhere}/model" and config["data_root"] == f"{elsewhere}/data"
    again = train("--resume", "--out", "run", "--env", "tasks.py:Low", "--algo", "./mine.py", "--updates", "2")
    assert again.code == 0, again.err
    os.chdir(elsewhere.parent)
    result = train("--resume", "--out", str(out), "--updates", "3")
    assert result.code == 0, result.err
    assert "resuming after update 2" in result.out


def test_a_run_is_known_by_its_environment_however_the_path_is_written(
    elsewhere: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["--env", "tasks.py:Low", "--model", "model", *LOW[2:], "--turn-tokens", "6", "--updates", "0"]
    train_run(*command, out=elsewhere / "run")
    for spec in ("tasks.py:Low", "./tasks.py:Low", f"{elsewhere}/tasks.py:Low"):
        assert evaluate(["--env", spec, "--policy", "run", "--episodes", "2"]) == 0
        assert "as in run: --turn-tokens 6" in capsys.readouterr().err.replace(f"{elsewhere}/", "")


def test_only_what_is_a_path_is_made_one(elsewhere: Path) -> None:
    for name in ("math/Arithmetic-v0", "tests.support.tasks:Low", "grpo", ""):
        assert absolute_spec(name) == name
    for name in ("mcp:python server.py", "mcp:https://host/mcp", "gymnasium:CartPole-v1"):
        assert absolute_spec(name) == name
    assert absolute_spec("mcp:server.py:make") == f"mcp:{Path.cwd() / 'server.py'}:make"
    (elsewhere / "tiny").mkdir()
    read_back = {"env": "math/Sets-v0", "model": "tiny"}
    (elsewhere / "mine.toml").write_text(to_toml(Settings(**read_back), {}))
    file_settings = read("mine.toml")
    assert {name: file_settings[name] for name in read_back} == read_back
    assert file_settings["data_root"] == ""


def test_a_config_that_names_code_says_so_before_it_runs(tmp_path: Path) -> None:
    env, recipe = tmp_path / "mine.py", tmp_path / "method.py"
    for path in (env, recipe):
        path.write_text(f"raise ImportError('{path.stem} was run')\n")
    config = tmp_path / "config.toml"
    config.write_text(f'env = "{env}:Game"\nalgo = "{recipe}"\n')
    result = train("--config", str(config), "--dry-run")
    assert result.out == f"this config runs code from {env}\nthis config runs code from {recipe}\n"
    assert result.code == 2 and "was run" in result.err
    named = train("--config", str(config), "--env", f"{env}:Game", "--algo", str(recipe), "--dry-run")
    assert f"from {env}" in named.out  # the same as in the file
    flags_only = train("--env", f"{env}:Game", "--dry-run")
    assert "runs code" not in flags_only.out
    other = train("--config", str(config), "--env", "math/Arithmetic-v0", "--algo", "grpo", "--dry-run")
    assert "runs code" not in other.out and other.code == 0


@pytest.mark.parametrize(
    ("values", "sources"),
    [
        ({"env": "tools/Corpus-v0", "env_arg": ["found=2", "retriever=near.py:embed"]}, ["near.py"]),
        ({"env": "tools/Tau2-v0", "env_arg": ["user=seats.models:customer"]}, ["seats.models:customer"]),
        ({"env": "chain:mine.py:Game"}, ["mine.py"]),
        ({"env": "mcp:python server.py"}, ["mcp:python server.py"]),
        ({"env": "package.module:Game-v0"}, ["package.module:Game-v0"]),
        ({"env": "chain:games/Sets-v0", "opponent": "minimax:depth=2", "env_arg": ["at=9:30", "url=http://host"]}, []),
    ],
)
def test_code_that_a_file_names_is_found_wherever_it_stands(values: dict[str, Any], sources: list[str]) -> None:
    assert code_sources(Settings(**values), values) == sources
    assert code_sources(Settings(**values), {}) == []


@pytest.mark.parametrize(
    ("values", "slots", "names"),
    [
        ({"env": "PLACE/mine.py:Game", "algo": "PLACE/mine.py"}, {}, ["mine.py"]),
        ({"agent": "PLACE/mine.py:Agent"}, {}, ["mine.py"]),
        ({"opponent": ["player_0=PLACE/mine.py:play", "random"]}, {}, ["mine.py"]),
        ({"judge": "PLACE/mine.py:judge"}, {}, ["mine.py"]),
        ({"judge": "openai:MODEL@http://host/v1"}, {"credit": "PLACE/mine.py:own:decay=0.5"}, ["mine.py"]),
        ({}, {"penalty": ["kl_k2:coef=0.1", "PLACE/mine.py:own"]}, ["mine.py"]),
        ({"env": "own_games.deep.sets:Game-v0"}, {}, ["own_games/deep/sets.py"]),
        ({"env": "chain:own_games:Game"}, {}, ["own_games/__init__.py"]),
        ({"env": "a", "env_arg": ["retriever=own_games.deep.sets:embed"]}, {}, ["own_games/deep/sets.py"]),
        ({"env": "gymnasium:CartPole-v1", "env_arg": ["a=json:loads", "b=envs.env:Env", "c=own_games.gone:x"]}, {}, []),
        ({"env": "mcp:python server.py", "env_arg": ["d=own_gone.deep:x", "e=own_games.deep.sets.x:y"]}, {}, []),
    ],
)
def test_the_files_of_a_users_own_code_are_known_without_its_import(
    values: dict[str, Any],
    slots: dict[str, Any],
    names: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    deep = tmp_path / "own_games" / "deep"
    deep.mkdir(parents=True)
    for file in (tmp_path / "mine.py", tmp_path / "own_games" / "__init__.py", deep / "sets.py"):
        file.write_text("raise ImportError('was run')\n")
    monkeypatch.syspath_prepend(tmp_path)

    def placed(value: Any) -> Any:
        return [*map(placed, value)] if isinstance(value, list) else value.replace("PLACE", str(tmp_path))

    settings = Settings(**{name: placed(value) for name, value in values.items()})
    files = code_files(settings, {slot: placed(value) for slot, value in slots.items()})
    assert files == [str(tmp_path / name) for name in names]


def test_steps_of_the_bundled_model_have_eight_groups_and_others_make_four() -> None:
    steps = {groups: Settings(env="a", groups=groups).with_defaults(1).minibatches for groups in (2, 8, 32, 40)}
    assert steps == {2: 1, 8: 1, 32: 4, 40: 5}
    steps = {groups: Settings(env="a", model="b", groups=groups).with_defaults(1).minibatches for groups in (2, 32)}
    assert steps == {2: 2, 32: 4}


def test_the_bundled_model_has_a_schedule_of_its_own_that_no_length_changes(tmp_path: Path) -> None:
    recipe = tmp_path / "mine.py"
    recipe.write_text(
        "from rl.methods.parts import schedule\nfrom rl.methods.recipe import Recipe\n"
        "recipe = Recipe(schedule=schedule.cosine)\n"
    )
    tiny = build_recipe(Settings(env="a"), {})
    assert words(tiny)["schedule"] == TINY_SCHEDULE
    assert [tiny.schedule(400, total) for total in (401, 600, 10_000)] == [tiny.schedule(400, 600)] * 3
    assert tiny.schedule(9_000, 10_000) == pytest.approx(0.1)
    assert words(build_recipe(Settings(env="a"), {"schedule": "constant"}))["schedule"] == "constant"
    assert words(build_recipe(Settings(env="a", model="b"), {}))["schedule"] == "constant:warmup=10"
    assert words(build_recipe(Settings(env="a", algo=str(recipe)), {}))["schedule"] == "cosine"


def test_a_task_of_one_turn_asks_more_of_the_cold_start() -> None:
    """Below a fifth of sampled success, a run of `math/Arithmetic-v0` stayed where it was for 120 updates."""
    until = {turns: Settings(env="a").with_defaults(turns).cold_start_until for turns in (1, 2, 12)}
    assert until == {1: 0.2, 2: 0.3, 12: 0.3}


def test_the_files_of_an_environments_arguments_mean_the_same_in_any_folder(elsewhere: Path) -> None:
    (elsewhere / "goals.jsonl").write_text('{"goal": "Add."}\n')
    (elsewhere / "grader.py").write_text("def grade(ending):\n    return 1.0\n")
    changed = {
        "tasks=goals.jsonl": f"tasks={elsewhere}/goals.jsonl",
        "checker=grader.py:grade": f"checker={elsewhere}/grader.py:grade",
        "checker=./grader.py:grade": f"checker={elsewhere}/grader.py:grade",
        "data_root=data": f"data_root={elsewhere}/data",
    }
    unchanged = (
        "level=2",
        "tasks=no.jsonl",
        "tasks=module:make",
        "goal=Use data",
        "checker=",
        "style=full",
        "view=data",
    )
    parser = argparse.ArgumentParser()
    add_flags(parser)  # type: ignore[arg-type]
    words = [*changed, *unchanged]
    result = parser.parse_args([part for word in words for part in ("--env-arg", word)])
    assert result.env_arg == [*changed.values(), *unchanged]


def test_the_model_of_a_run_goes_on_with_the_style_it_was_trained_with(tmp_path: Path) -> None:
    run = train_run(*flags("math/Arithmetic-v0", "--env-arg", "style=short", updates=1), out=tmp_path / "run")
    words = ("--env", "games/GuessNumber-v0", "--model", str(run), "--cold-start", "0")
    assert f"as in {run}: --env-arg style=short" in train(*words, "--dry-run").err
    assert dry_run(*words)[0]["style"] == "short"
    assert dry_run(*words, "--env-arg", "style=full")[0]["env_arg"] == ["style=full"]


def test_weights_that_nothing_would_take_over_are_refused() -> None:
    result = train("--env", "math/Arithmetic-v0", "--cold-start", "0", "--cold-start-from", "tiny", "--dry-run")
    assert (
        result.code == 2
        and "there is no cold start; add --cold-start N, such as 4000, or train its model" in result.err
    )
