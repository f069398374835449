"""Training on images from the command line: killed and resumed bit for bit, and its pictures in the viewer."""

from __future__ import annotations

import json
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from rl.policy import lora
from rl.policy.pretrained import load_pretrained, save_pretrained
from rl.settings import Settings
from rl.train.model import TrainedModel
from rl.viewer import reader
from tests.support.runs import Child, assert_same_run, metrics, train, train_run, training_error
from tests.support.vision import vision_model

pytest.importorskip("PIL", reason="needs Pillow: the extra vision")


def words(model: Path, **more: str) -> list[str]:
    """Flags of a short run with several pictures in an episode, a method of forks, and a lag."""
    values = {
        "env": "games/Shapes-v0",
        "model": str(model),
        "updates": "3",
        "save-every": "1",
        "groups": "2",
        "size": "3",
    }
    values |= {"lr": "1e-3", "turn-tokens": "4", "max-tokens": "160", "eval-episodes": "0", "lag": "1", "threads": "1"}
    arguments = ("style=short", "rounds=3", "question=colour")
    return [
        *(word for name, value in (values | more).items() for word in (f"--{name}", value)),
        *(word for value in arguments for word in ("--env-arg", value)),
        *("--keep", "any_group", "--cold-start", "6", "--cold-start-until", "0"),
    ]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from rl.policy.images import tiny

    folder = tmp_path_factory.mktemp("vision") / "model"
    save_pretrained(*tiny.create(0, hidden=64, layers=2, heads=2, vision=32, depth=1), folder)
    return folder


@pytest.mark.slow
def test_a_killed_run_on_images_goes_on_bit_for_bit_and_shows_them(model: Path, tmp_path: Path) -> None:
    out, whole = tmp_path / "run", tmp_path / "whole"
    die = ("rl.train.run_folder:RunFolder", "write_rollouts", 3)
    result = Child(*words(model), "--out", str(out), log=tmp_path / "log", die=die).wait()
    assert result.code == -signal.SIGKILL, result.out
    assert train("--resume", "--out", str(out)).code == 0
    assert train(*words(model), "--out", str(whole)).code == 0
    assert_same_run(out, whole)

    text = (whole / "rollouts" / "update-000003.jsonl").read_text()
    assert "data:image" not in text and "images/" in text
    turn = json.loads(text.splitlines()[0])["turns"][0]
    ((at, name),) = turn["images"]
    assert (whole / "rollouts" / name).read_bytes().startswith(b"\x89PNG") and 0 < at < len(turn["context_ids"])
    episodes = reader.read(reader.find(whole)).episodes
    block = episodes[-1]["turns"][0]["observation"][0]["content"][1]
    assert block["image_url"]["url"].startswith("data:image/png;base64,")


def test_a_text_model_on_pictures_is_refused_in_one_line(tmp_path: Path) -> None:
    error = training_error("--env", "games/Shapes-v0", "--updates", "1", "--out", str(tmp_path / "run"))
    assert "this model reads text only" in error and error.strip().count("\n") == 0


def test_a_model_whose_images_are_refused_trains_on_texts_and_names_the_reason(tmp_path, caplog):
    model = tmp_path / "model"
    save_pretrained(*vision_model("gemma3"), model)
    texts = ("--env", "math/Arithmetic-v0", "--model", str(model), "--groups", "2", "--size", "2", "--turn-tokens", "4")
    out = train_run(*texts, "--updates", "1", "--eval-episodes", "0", "--threads", "1", out=tmp_path / "run")
    (line,) = metrics(out)
    assert line["tokens/trained"] > 0 and line["logp_gap/max"] < 1e-4
    assert caplog.text.count("reads text only here: in this model tokens of an image see each other") == 1
    assert "tokens of an image see each other" in training_error(*words(model), "--out", tmp_path / "other")


@pytest.mark.parametrize("family", ["qwen2_vl", "gemma3"])
def test_all_linear_layers_for_vllm_in_bfloat16_are_those_of_the_language_model(family, tmp_path, caplog):
    pytest.importorskip("peft")
    save_pretrained(*vision_model(family), tmp_path / "model")
    settings = Settings(model=str(tmp_path / "model"), lora=2, lora_alpha=4, dtype="bfloat16", engine_dtype="bfloat16")
    both, one = (TrainedModel(replace(settings, engine=engine)) for engine in ("hf", "vllm"))
    assert caplog.text.count("--lora-targets all-linear: layers of the language model get adapters, and") == 1
    names = [name for name, _ in lora.adapter_layers(one.model)]
    assert names == [name for name, _ in lora.adapter_layers(both.model) if ".language_model." in name]
    assert 0 < len(names) < len(lora.adapter_layers(both.model))
    few = TrainedModel(replace(settings, engine="vllm", lora_targets="q_proj,down_proj"))
    assert all(".language_model." in name for name, _ in lora.adapter_layers(few.model))
    assert ("--lora-targets q_proj,down_proj: layers of" in caplog.text) == (family == "gemma3")  # its tower has q_proj
    one.save(tmp_path / "adapters")
    merged, _ = load_pretrained(str(tmp_path / "adapters"))
    assert merged.state_dict().keys() == vision_model(family)[0].state_dict().keys()
