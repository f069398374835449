"""The episodes that an evaluation writes beside its result."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from rl import cli
from rl.evaluate import __main__ as evaluate
from rl.evaluate.rollouts import rollouts_path
from rl.viewer.reader import find, read


def run(*words: object) -> int:
    with pytest.raises(SystemExit) as stop:
        cli.run(partial(evaluate.main, [str(word) for word in words]))
    return int(stop.value.code or 0)


def test_every_sample_of_every_task_can_be_read_by_the_viewer(tmp_path):
    result = tmp_path / "floor.json"
    words = ("--env", "games/GuessNumber-v0", "--policy", "random", "--episodes", "5", "--samples", "3")
    assert run(*words, "--json", result) == 0
    episodes = read(find(tmp_path / "floor.rollouts.jsonl")).episodes
    report = json.loads(result.read_text())
    assert {(episode["env"], episode["split"]) for episode in episodes} == {("games/GuessNumber-v0", "test")}
    returns: dict[str, list[float]] = {}
    for episode in episodes:
        returns.setdefault(episode["task"], []).append(episode["reward"])
    assert returns == {row["task"]: row["rewards"] for row in report["per_task"]}


def test_episodes_of_a_benchmark_name_their_own_environment(tmp_path):
    assert run("--benchmark", "core-v1", "--policy", "noop", "--episodes", "1", "--json", tmp_path / "r") == 0
    environments = [episode["env"] for episode in read(find(rollouts_path(tmp_path / "r"))).episodes]
    assert len(environments) == len(set(environments)) == 10


def test_a_strategy_s_candidates_are_all_written(tmp_path):
    words = ("--env", "math/Arithmetic-v0", "--policy", "random", "--episodes", "2", "--strategy", "majority:n=4")
    assert run(*words, "--json", tmp_path / "r.json") == 0
    members = [episode["member"] for episode in read(find(tmp_path / "r.rollouts.jsonl")).episodes]
    assert members == [0, 1, 2, 3] * 2


def test_no_episodes_are_written_if_one_asks_for_none(tmp_path):
    words = ("--env", "math/Arithmetic-v0", "--policy", "noop", "--episodes", "2", "--json", tmp_path / "r.json")
    assert run(*words, "--no-rollouts") == 0
    assert [path.name for path in tmp_path.iterdir()] == ["r.json"]


def test_a_result_is_kept_if_its_episodes_cannot_be_written(tmp_path: Path, capsys):
    (tmp_path / "r.rollouts.jsonl").mkdir()
    words = ("--env", "math/Arithmetic-v0", "--policy", "noop", "--episodes", "2", "--json", tmp_path / "r.json")
    assert run(*words) == 0
    assert "the episodes were not written: " in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["r.json", "r.rollouts.jsonl"]
