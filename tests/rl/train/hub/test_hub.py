"""Uploading a run's model to the Hub, tried on a stand-in of the Hub on loopback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import huggingface_hub
import pytest
import yaml

from rl.evaluate.__main__ import main as evaluate
from rl.settings import Settings
from rl.train.hub.model_card import model_card
from tests.support import hub_server, runs
from tests.support.paths import ROOT

SUMMARY = {"success_before": 0.25, "success_after": 0.75, "updates": 3, "episodes": 24}


@pytest.fixture(scope="module")
def hub():
    with hub_server.running() as server:
        yield server


def command(hub: hub_server.HubServer, home: Path, *words: str, token: str = hub_server.TOKEN):
    """Run a module in a process of its own, whose Hub is the stand-in."""
    env = {**os.environ, "HF_ENDPOINT": hub.address, "HF_HUB_DISABLE_XET": "1", "HF_HOME": str(home)}
    env = {**env, "HF_TOKEN": token, "HF_HUB_OFFLINE": "0", "TRANSFORMERS_OFFLINE": "0"}
    return subprocess.run([sys.executable, "-m", *words], cwd=ROOT, env=env, capture_output=True, text=True)


@pytest.fixture
def here(hub, tmp_path, monkeypatch) -> None:
    """Let the Hub of this process be the stand-in: what the library has read of the environment when imported."""
    for name, value in {
        "ENDPOINT": hub.address,
        "HF_HUB_CACHE": str(tmp_path / "hub"),
        "HF_HUB_OFFLINE": False,
        "HF_HUB_DISABLE_XET": True,
    }.items():
        monkeypatch.setattr(huggingface_hub.constants, name, value)
    template = huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE.partition("/{repo_id}")
    monkeypatch.setattr(huggingface_hub.constants, "HUGGINGFACE_CO_URL_TEMPLATE", hub.address + "".join(template[1:]))
    monkeypatch.setenv("HF_TOKEN", hub_server.TOKEN)


@pytest.fixture(scope="module")
def upload(hub, tmp_path_factory):
    home = tmp_path_factory.mktemp("hub")
    words = runs.flags("Low", "--updates", "1", "--out", home / "run", "--push-to-hub", "ada/low", "--hub-private")
    return home, command(hub, home, "rl.train", *words)


def test_a_trained_model_is_uploaded_with_its_card_in_one_commit(hub, upload):
    home, done = upload
    assert done.returncode == 0, done.stderr
    assert f"uploaded to {hub.address}/ada/low" in done.stdout
    files = hub.repositories["ada/low"]
    model = home / "run" / "checkpoints" / "latest" / "model"
    assert {name: content for name, content in files.items() if name != "README.md"} == {
        path.name: path.read_bytes() for path in model.iterdir()
    }
    assert (hub.commits, hub.private) == (1, {"ada/low"})
    card = files["README.md"].decode()
    summary = json.loads((home / "run" / "summary.json").read_text())
    assert f"{summary['success_after']:.3f} after it" in card
    assert str(home) not in card and str(ROOT) not in card


def test_what_was_uploaded_can_be_evaluated_by_its_id(hub, upload, here, tmp_path, capsys):
    words = ("--env", f"{runs.TASKS}:Low", "--policy", "ada/low", "--episodes", "4", "--json", str(tmp_path / "r.json"))
    evaluate([*words, "--turn-tokens", "6"])
    assert json.loads((tmp_path / "r.json").read_text())["policy"] == "ada/low"
    assert list((tmp_path / "hub").rglob("model.safetensors"))


def test_without_a_login_a_run_that_will_be_uploaded_does_not_begin(hub, tmp_path):
    words = runs.flags("Low", "--updates", "1", "--out", tmp_path / "run", "--push-to-hub", "ada/other")
    done = command(hub, tmp_path, "rl.train", *words, token="hf_wrong")
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert "--push-to-hub ada/other" in done.stderr
    assert not (tmp_path / "run").exists()


def test_after_a_failed_upload_the_finished_run_can_be_uploaded_again(hub, here, tmp_path):
    hub.refuse_commits = True
    words = runs.flags("Low", "--updates", "1", "--out", tmp_path / "run", "--push-to-hub", "ada/again")
    try:
        result = runs.train(*words)
    finally:
        hub.refuse_commits = False
    assert result.code == 2 and "Traceback" not in result.err
    last = result.err.strip().splitlines()[-1]
    hint = last.rpartition("upload it with ")[2].split()
    assert hint[:1] == ["--resume"], last
    result = runs.train(*hint)
    assert result.code == 0, result.err
    assert "model.safetensors" in hub.repositories["ada/again"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--push-to-hub", "a b"), "--push-to-hub a b"),
        (("--hub-private",), "--hub-private is about the repository of --push-to-hub ID"),
    ],
)
def test_a_wrong_repository_is_refused_in_one_line(words, message, tmp_path):
    assert message in runs.training_error(*runs.flags("Low"), "--out", tmp_path / "run", *words)
    assert not (tmp_path / "run").exists()


def test_the_card_of_a_model_from_the_hub_names_its_base_and_its_results():
    settings = Settings(env="/home/ada/low.py:Low", model="Qwen/Qwen3-0.6B", push_to_hub="ada/low")
    text = model_card(settings, {"credit": "grpo"}, SUMMARY)
    _, metadata, body = text.split("---\n", 2)
    card = yaml.safe_load(metadata)
    assert (card["base_model"], card["library_name"]) == ("Qwen/Qwen3-0.6B", "transformers")
    result = card["model-index"][0]["results"][0]
    assert (result["dataset"]["name"], result["metrics"][0]["value"]) == ("low.py:Low", 0.75)
    assert "0.250 before" in body and "/home" not in text


def test_the_card_says_which_weights_a_cold_start_began_with_and_no_folder_of_theirs():
    settings = Settings(env="a", push_to_hub="ada/low", cold_start=4, cold_start_from="/home/ada/runs/recall")
    text = model_card(settings, {}, SUMMARY)
    assert "It first imitated 4 oracle episodes from the weights of `recall` on." in text and "/home" not in text
    assert "recall" not in model_card(replace(settings, cold_start=0), {}, SUMMARY)


def test_adapters_of_a_local_model_are_not_uploaded(tmp_path):
    pytest.importorskip("peft")
    words = (*runs.flags("Low"), "--lora", "2", "--out", tmp_path / "run", "--push-to-hub", "ada/low")
    assert "who do not have that model" in runs.training_error(*words)
