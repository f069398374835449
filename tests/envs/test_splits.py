"""Environments that lack a split: what `reset`, the doctor and the command line do with them."""

import io
import json
import os

import pytest

import envs
from envs.__main__ import main
from envs.checks import check_env
from envs.checks.env_under_test import EnvUnderTest, held_out_split, oracle_replies, play
from envs.data import MissingData
from tests.support.environments import Echo, SomeSplits
from tests.support.paths import ENVIRONMENTS

ROWS = {
    "code/HumanEval-v0": {
        "task_id": "Toy/0",
        "prompt": "def one():\n",
        "entry_point": "one",
        "canonical_solution": "    return 1\n",
        "test": "def check(candidate):\n    assert candidate() == 1\n",
    },
    "math/AIME-v0": {"problem": "One?", "answer": "073"},
    "math/MATH500-v0": {"problem": "One?", "answer": "1"},
    "math/GSM8K-v0": {"question": "One?", "answer": "#### 1"},
}


@pytest.mark.parametrize("name", ROWS)
def test_reset_plays_the_official_file_where_there_is_no_other(name, tmp_path, monkeypatch):
    monkeypatch.setattr("envs.data.find_spec", lambda module: None)  # nothing from the hub
    folder = tmp_path / name.partition("/")[2].partition("-")[0].lower()
    folder.mkdir()
    (folder / "test.jsonl").write_text(json.dumps(ROWS[name]) + "\n")
    with envs.make(name, data_root=str(tmp_path)) as env:
        assert env.reset(seed=0)[1]["task"] == "test/0"
        with pytest.raises(MissingData, match="train"):  # asked for, it is not replaced
            env.reset(seed=0, options={"split": "train"})


@pytest.mark.parametrize(
    "there, found", [("train val test", ["train", "test", "val"]), ("val test", ["test", "val"]), ("val", ["val"])]
)
def test_the_default_split_is_the_first_that_has_tasks(there, found):
    env = SomeSplits(there=there)
    assert list(env.splits()) == found
    assert env.reset(seed=0)[1]["split"] == env.reset(seed=0, options={"split": None})[1]["split"] == found[0]


def test_a_split_without_tasks_is_no_default_one(monkeypatch):
    tasks = Echo.tasks
    monkeypatch.setattr(Echo, "tasks", lambda self, split: tasks(self, split) if split == "val" else [])
    env = Echo(prefix="empty")
    assert env.reset(seed=0)[1]["split"] == "val"
    with pytest.raises(ValueError, match="split 'test' has no tasks"):
        env.reset(seed=0, options={"split": "test"})


def test_where_all_data_are_missing_the_error_is_that_of_train():
    with pytest.raises(MissingData, match="split 'train' needs a file"):
        SomeSplits(there="").reset(seed=0)
    with pytest.raises(MissingData, match="split 'test' needs a file"):
        check_env(f"{ENVIRONMENTS}:SomeSplits", there="")


@pytest.mark.parametrize("there, played, left_out", [("test", "test", "train, val"), ("train", "train", "val, test")])
def test_the_doctor_leaves_out_what_is_missing_and_says_so(there, played, left_out):
    name = f"{ENVIRONMENTS}:SomeSplits"
    results = check_env(name, there=there)
    assert results[0].claim.endswith(f" Left out, as their data are missing: {left_out}.")
    with EnvUnderTest(name, {"there": there}).make() as env:
        assert held_out_split(env) == played and play(env, oracle_replies).info["split"] == played


def test_play_takes_the_split_there_is_and_names_it_beside_a_missing_one(capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert main(["play", f"{ENVIRONMENTS}:SomeSplits", "--index", "1"]) == 0
    assert "task test/1" in capsys.readouterr().out
    assert main(["play", f"{ENVIRONMENTS}:SomeSplits", "--split", "train", "--env-arg", "there=val test"]) == 2
    assert capsys.readouterr().err == (
        "python -m envs play: split 'train' needs a file; there is --split test or --split val\n"
    )
    assert main(["play", f"{ENVIRONMENTS}:SomeSplits", "--env-arg", "there="]) == 2
    assert capsys.readouterr().err == "python -m envs play: split 'train' needs a file\n"


@pytest.mark.parametrize(
    ("name", "origin", "layout"),
    [
        ("tools/BFCL-v0", "ShishirPatil/gorilla", "bfcl/answers_BFCL_v4_CATEGORY.json"),
        ("tools/Corpus-v0", "your documents", "corpus/SPLIT.jsonl"),
        ("tools/Tau2-v0", "sierra-research/tau2-bench", "tau2/DOMAIN/NAME"),
        ("math/GSM8K-v0", "openai/grade-school-math", "gsm8k/test.jsonl"),
        ("math/MATH500-v0", "HuggingFaceH4/MATH-500", "math500/test.jsonl"),
        ("math/AIME-v0", "HuggingFaceH4/aime_2024", "aime/NAME.jsonl"),
        ("code/HumanEval-v0", "openai/human-eval", "humaneval/HumanEval.jsonl"),
        ("code/MBPP-v0", "google-research/google-research", "mbpp/mbpp.jsonl"),
    ],
)
def test_play_without_data_says_where_they_come_from_and_how_they_are_laid_out(
    name, origin, layout, monkeypatch, capsys, tmp_path
):
    monkeypatch.setattr("envs.data.find_spec", lambda module: None)  # nothing from the hub
    monkeypatch.setenv("TURNWISE_DATA", "")  # so that it is put back, which the command sets
    for arguments in ([], ["--data-root", str(tmp_path)]):
        with pytest.raises(SystemExit) as exit_:
            raise SystemExit(main(["play", name, *arguments]))
        error = capsys.readouterr().err
        assert exit_.value.code == 2 and origin in error and layout in error
        assert "no split 'train'" not in error and len(error.strip().splitlines()) == 1


def test_play_takes_the_first_split_with_tasks(monkeypatch, tmp_path, capsys):
    folder = tmp_path / "bfcl"
    folder.mkdir()
    question = {"id": "irrelevance_0", "question": [[{"role": "user", "content": "Hello?"}]], "function": []}
    (folder / "BFCL_v4_irrelevance.json").write_text(json.dumps(question) + "\n")
    monkeypatch.setenv("TURNWISE_DATA", "")
    monkeypatch.setattr("sys.stdin", io.StringIO("No tool fits.\n"))
    assert main(["play", "tools/BFCL-v0", "--env-arg", "category=irrelevance", "--data-root", str(tmp_path)]) == 0
    assert "success True" in capsys.readouterr().out


def test_a_data_root_is_that_of_the_folder_where_the_command_began(monkeypatch, tmp_path, capsys):
    folder = tmp_path / "data" / "bfcl"
    folder.mkdir(parents=True)
    question = {"id": "irrelevance_0", "question": [[{"role": "user", "content": "Hello?"}]], "function": []}
    (folder / "BFCL_v4_irrelevance.json").write_text(json.dumps(question) + "\n")
    for root, flags in (("data", []), ("", ["--data-root", "data"])):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("TURNWISE_DATA", root)
        monkeypatch.setattr("sys.stdin", io.StringIO("No tool fits.\n"))
        assert main(["play", "tools/BFCL-v0", "--env-arg", "category=irrelevance", *flags]) == 0
        assert os.environ["TURNWISE_DATA"] == str(tmp_path / "data")
