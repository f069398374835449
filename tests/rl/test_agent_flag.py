"""`--agent`: windows in training and evaluation, what is recorded, who refuses it."""

from __future__ import annotations

import json
import tomllib
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from rl import cli
from rl.evaluate import __main__ as evaluate
from rl.rollout.jsonl import read_file
from tests.support import runs

CLARIFY = ("--env-arg", "style=short", "--env-arg", "spare=3", "--updates", "1", "--cold-start", "0")
WINDOW = ("--agent", "window:turns=2")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("run") / "run"
    return runs.train_run(*runs.flags("tools/Clarify-v0", *CLARIFY, *WINDOW), out=out)


def evaluation(capsys: Any, *words: object) -> tuple[int, str]:
    with pytest.raises(SystemExit) as stop:
        cli.run(partial(evaluate.main, [str(word) for word in words]))
    return int(stop.value.code or 0), capsys.readouterr().err


def fresh_turns(path: Path) -> list[list[bool]]:
    lines = read_file(path)[0].decode().splitlines()
    return [[turn["fresh"] for turn in json.loads(line)["turns"]] for line in lines]


def test_episodes_with_a_window_are_trained_and_recorded(run: Path) -> None:
    assert tomllib.loads((run / "config.toml").read_text())["agent"] == "window:turns=2"
    episodes = fresh_turns(next((run / "rollouts").glob("update-000001.jsonl*")))
    assert any(len(episode) > 3 for episode in episodes)
    assert all(fresh == (turn > 2) for episode in episodes for turn, fresh in enumerate(episode))
    (line,) = (run / "metrics.jsonl").read_text().splitlines()
    metrics = json.loads(line)
    assert metrics["tokens/trained"] > 0
    assert abs(metrics["kl/sampler_trainer"]) < 1e-4  # the trainer read the contexts that the sampler read


def test_an_evaluation_takes_the_window_from_the_run(run: Path, tmp_path: Path, capsys: Any) -> None:
    words = ("--env", "tools/Clarify-v0", "--policy", run, "--episodes", 2)
    status, err = evaluation(capsys, *words, "--json", tmp_path / "r.json")
    assert status == 0, err
    assert "--agent window:turns=2" in err
    assert any(fresh for episode in fresh_turns(tmp_path / "r.rollouts.jsonl") for fresh in episode)
    assert evaluation(capsys, *words, "--agent", "keep_all", "--json", tmp_path / "s.json")[0] == 0
    assert not any(fresh for episode in fresh_turns(tmp_path / "s.rollouts.jsonl") for fresh in episode)


def test_it_cannot_change_on_resume(run: Path) -> None:
    assert "--agent cannot change" in runs.training_error("--resume", "--out", run, "--agent", "keep_all")


def test_a_mistake_is_one_line_in_both_commands(capsys: Any) -> None:
    flags = ("--agent", "window:turns=0")
    message = "--agent window:turns=0: turns=0 of window is no whole number from 1; write window:turns=4"
    assert message in runs.training_error(*runs.flags("Low"), *flags)
    status, err = evaluation(capsys, "--env", "math/Arithmetic-v0", "--policy", "tiny", *flags)
    assert (status, err.count("\n")) == (2, 1)
    assert message in err


@pytest.mark.parametrize("policy", ["random", "oracle", "replay:x.jsonl", "openai:m@http://localhost:1/v1"])
def test_policies_without_such_prompts_refuse_it(policy: str, capsys: Any) -> None:
    status, err = evaluation(capsys, "--env", "math/Arithmetic-v0", "--policy", policy, *WINDOW)
    assert (status, err.count("\n")) == (2, 1)
    assert f"--agent means nothing to --policy {policy}" in err
