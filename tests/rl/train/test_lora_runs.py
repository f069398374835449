"""Training runs with `--lora`: what their folders hold, and that they resume bit for bit."""

from __future__ import annotations

import json
import shutil
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from rl import checksums
from rl.evaluate import __main__ as evaluate
from rl.policy import lora
from rl.policy.pretrained import load_pretrained
from rl.settings import Settings
from rl.train.model import with_rate
from sandboxes.extras import install_command
from tests.support.models import next_logits
from tests.support.runs import (
    Child,
    assert_same_run,
    flags,
    metrics,
    small_model,
    train,
    train_run,
    training_error,
    weights,
)

peft = pytest.importorskip("peft")
RUNS: dict[str, dict[str, Any]] = {
    "plain": {},
    "a reference, lagging": {"penalty": "kl_k2:coef=0.01", "lag": 1},
    "a critic": {"algo": "ppo"},
    "several steps after a cold start": {"epochs": 2, "minibatches": 2, "cold_start": 4, "cold_start_until": 0.1},
}
IDS = [3, 1, 4, 1, 5, 9, 2, 6]


def words(name: str = "plain", **more: Any) -> list[str]:
    return flags("Talk", **{"lora": 3, "updates": 4, "save_every": 2, **RUNS[name], **more})


@pytest.mark.parametrize("name", RUNS)
def test_a_killed_run_of_adapters_goes_on_bit_for_bit(name: str, tmp_path: Path) -> None:
    out = tmp_path / "run"
    die = ("rl.train.run_folder:RunFolder", "write_rollouts", 4)
    result = Child(*words(name), "--out", str(out), log=tmp_path / "log", die=die).wait()
    assert result.code == -signal.SIGKILL, result.out
    again = train("--resume", "--out", str(out))
    assert again.code == 0, again.err
    assert "resuming after update 2" in again.out
    assert_same_run(out, train_run(*words(name), out=tmp_path / "whole"))


def test_a_checkpoint_holds_the_adapters_alone_and_peft_reads_them(tmp_path: Path) -> None:
    out = train_run(*words(), out=tmp_path / "run")
    folder = out / "checkpoints" / "latest" / "model"
    assert not (out / "base").exists() and not (folder / "model.safetensors").exists()
    config = json.loads((folder / "adapter_config.json").read_text())
    assert (config["r"], config["lora_alpha"], config["base_model_name_or_path"]) == (3, 6, small_model())
    assert any(value.any() for name, value in weights(out).items() if "lora_B" in name)
    base, _ = load_pretrained(small_model())
    before = next_logits(base, IDS)
    theirs = next_logits(peft.PeftModel.from_pretrained(base, folder), IDS)
    merged_model, tokenizer = load_pretrained(str(out))
    torch.testing.assert_close(next_logits(merged_model, IDS), theirs, atol=1e-5, rtol=1e-5)
    assert not torch.allclose(before, theirs, atol=1e-3)
    assert tokenizer.chat_template
    assert "adapters of rank 3, which are trained" in train(*words(), "--dry-run").out


def test_a_run_with_adapters_on_some_layers_goes_on_as_if_never_left(tmp_path: Path) -> None:
    settings = {"lora_targets": "q_proj, up_proj", "schedule": "constant", "eval_episodes": 0}
    out = train_run(*words(updates=2, **settings), out=tmp_path / "run")
    assert {name.split(".")[-3] for name in weights(out)} == {"q_proj", "up_proj"}
    assert train("--resume", "--out", str(out), "--updates", "4").code == 0
    assert_same_run(out, train_run(*words(**settings), out=tmp_path / "whole"))
    assert not lora.adapter_layers(load_pretrained(str(out))[0])
    assert "--lora-targets cannot change" in training_error("--resume", "--out", out, "--lora-targets", "q_proj")


def test_the_learning_rate_is_that_of_adapters_where_none_is_given() -> None:
    big = torch.nn.Linear(1000, 600_000, bias=False, device="meta")
    with_adapters = Settings(env="math/Arithmetic-v0", model="some/model", lora=8).with_defaults(1)
    assert (with_rate(with_adapters, big).lr, with_adapters.lora_alpha) == (1e-5, 16)
    plain = Settings(env="math/Arithmetic-v0", model="some/model").with_defaults(1)
    assert (with_rate(plain, big).lr, plain.lora_alpha) == (1e-6, None)
    assert with_rate(replace(plain, lr=0.5), big).lr == 0.5 and "lr" in with_rate(plain, big).derived
    assert (
        Settings(env="math/Arithmetic-v0", lora=8).with_defaults(1).lr == Settings(env="").with_defaults(1).lr == 1.5e-4
    )


def test_the_bundled_model_is_kept_once_as_it_was_below_its_adapters(tmp_path: Path, monkeypatch: Any) -> None:
    """The cold start trains every weight, the same as without adapters, and is cached as such."""
    monkeypatch.setenv("TURNWISE_CACHE", str(tmp_path / "cache"))
    settings = {"model": "tiny", "cold_start": 4, "cold_start_until": 0.1, "updates": 0}
    plain = train_run(*flags("Low", **settings), out=tmp_path / "plain")
    out = train_run(*flags("Low", **{**settings, "updates": 2}, lora=2), out=tmp_path / "run")
    assert len(list((tmp_path / "cache").rglob("*.safetensors"))) == 1
    base, start = load_pretrained(str(out / "base"))[0].state_dict(), load_pretrained(str(plain))[0].state_dict()
    assert base.keys() == start.keys() and all(torch.equal(base[name], start[name]) for name in base)
    moved_run = out.rename(tmp_path / "moved")
    longer = train("--resume", "--out", str(moved_run), "--updates", "3")
    assert longer.code == 0, longer.err
    command = ["--env", "games/GuessNumber-v0", "--policy", str(moved_run), "--episodes", "2", "--turn-tokens", "4"]
    assert evaluate.main([*command, "--json", str(tmp_path / "found.json")]) == 0
    assert json.loads((tmp_path / "found.json").read_text())["errors"] == 0
    shutil.rmtree(moved_run / "base")
    message = training_error("--resume", "--out", moved_run, "--updates", 4)
    assert message.startswith(
        f"checkpoint {moved_run}/checkpoints/update-000003 cannot be used: model '{moved_run}/base': "
    )


def test_a_run_killed_before_its_first_checkpoint_begins_again_with_its_base(tmp_path: Path) -> None:
    out, settings = tmp_path / "run", words(cold_start=4, cold_start_until=0.1)
    result = Child(*settings, "--out", str(out), log=tmp_path / "log", die=("rl.train.model", "save_adapter", 1)).wait()
    assert result.code == -signal.SIGKILL and (out / "base" / "config.json").is_file()
    assert train("--resume", "--out", str(out)).code == 0
    assert_same_run(out, train_run(*settings, out=tmp_path / "whole"))


def test_adapters_can_be_trained_on_top_of_another_runs_merged_ones(tmp_path: Path) -> None:
    first = train_run(*words(), out=tmp_path / "first")
    second = train_run(*words(model=str(first), penalty="kl_k2:coef=0.01"), out=tmp_path / "second")
    start, base = load_pretrained(str(first))[0], load_pretrained(str(second / "base"))[0]
    assert torch.equal(next_logits(start, IDS), next_logits(base, IDS))
    third = train_run(*words(model=str(first), lora=0, updates=1), out=tmp_path / "third")
    assert len(weights(third)) == len(base.state_dict()) - 1 and len(metrics(third)) == 1  # one is tied


def test_what_cannot_be_adapted_is_said_in_one_line(tmp_path: Path, monkeypatch: Any) -> None:
    assert "add --lora RANK" in training_error(*words(lora=0, lora_alpha=8))
    assert "add --lora RANK" in training_error(*words(lora=0, lora_targets="q_proj"))
    assert "no linear layer is called 'qproj'; there are" in training_error(*words(lora_targets="qproj"))
    out = train_run(*words(updates=1), out=tmp_path / "run")
    assert "--lora cannot change in a resumed run from 3 to 4" in training_error("--resume", "--out", out, "--lora", 4)
    file = out / "checkpoints" / "latest" / "model" / "adapter_model.safetensors"
    file.write_bytes(file.read_bytes()[:-9])
    assert "cannot be used: " in training_error("--resume", "--out", out, "--updates", 2)
    damage = "its model/adapter_model.safetensors is damaged"
    assert damage in training_error(*words(model=str(out)))
    checksums.write(out / "checkpoints" / "latest")  # as if it had been saved like that
    assert "does not fit" in training_error(*words(model=str(out)))
    monkeypatch.setattr("rl.policy.extras.find_spec", lambda name: None)
    assert install_command("lora") in training_error(*words())
