"""Where the base model of an adapter is looked for, and which adapters are refused."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from rl.cli import UserError
from rl.policy import lora, tiny
from rl.policy.pretrained import load_pretrained, permanent_name, save_adapter, save_pretrained
from rl.train.run_folder import RunFolder
from tests.rl.policy.test_lora import model_with_adapters
from tests.support.models import model, next_logits
from tests.support.runs import assert_same_run, flags, small_model, train, train_run, weights

peft = pytest.importorskip("peft")
IDS = [3, 1, 4, 1, 5, 9, 2, 6]


def words(**more: Any) -> list[str]:
    return flags("Talk", **{"lora": 3, "updates": 4, "save_every": 2, "eval_episodes": 0, **more})


def refused(*argv: object) -> str:
    """The one-line error of a command that is refused."""
    result = train(*map(str, argv))
    assert (result.code, result.err.count("\n")) == (2, 1), result
    return result.err.rstrip("\n").partition(": error: ")[2]


def base_path(folder: Path) -> str:
    """The base model that an adapter's config names."""
    return str(json.loads((folder / lora.CONFIG).read_text())["base_model_name_or_path"])


def rename_base(folder: Path, name: str) -> None:
    file = folder / lora.CONFIG
    file.write_text(json.dumps({**json.loads(file.read_text()), "base_model_name_or_path": name}))


def small(seed: int = 0, layers: int = 1) -> Any:
    return tiny.create(seed, hidden=32, layers=layers, heads=1, intermediate=32)


def test_a_folder_of_the_users_called_base_is_not_written_over(tmp_path: Path) -> None:
    out, argv = tmp_path / "run", words(cold_start=2, cold_start_until=0.0, updates=0)
    (out / "base").mkdir(parents=True)
    (out / "base" / "mine.txt").write_text("mine")
    assert "there is a base/ already" in refused(*argv, "--out", out)
    assert (out / "base" / "mine.txt").read_text() == "mine" and not (out / "config.toml").exists()
    assert train(*words(updates=0), "--out", str(out)).code == 0  # keeps no base of its own
    assert (out / "base" / "mine.txt").read_text() == "mine"


def test_a_run_goes_on_above_the_base_that_its_checkpoint_names(tmp_path: Path, monkeypatch: Any) -> None:
    """Also from another directory in which another model has the same relative path."""
    home = tmp_path / "home"
    (home / "mine").mkdir(parents=True)
    for path in Path(small_model()).iterdir():
        (home / "mine" / path.name).write_bytes(path.read_bytes())
    monkeypatch.chdir(home)
    out = train_run(*words(model="mine", schedule="constant", updates=2), out=tmp_path / "run")
    assert base_path(out / "checkpoints/latest/model") == str(home / "mine")
    other = tmp_path / "other"
    other.mkdir()
    save_pretrained(*small(seed=9), other / "mine")
    monkeypatch.chdir(other)
    assert train("--resume", "--out", str(out), "--updates", "4").code == 0
    assert_same_run(out, train_run(*words(schedule="constant"), out=tmp_path / "whole"))


def test_another_runs_checkpoint_is_kept_because_that_run_will_remove_it(tmp_path: Path) -> None:
    first = train_run(*words(lora=0, updates=1), out=tmp_path / "first")
    (checkpoint,) = (first / "checkpoints").glob("update-000001")
    assert permanent_name(str(checkpoint / "model")) is None
    assert permanent_name(str(first / "checkpoints" / "latest" / "model")) is None
    assert permanent_name(small_model()) == str(Path(small_model()).resolve())
    second = train_run(*words(model=str(checkpoint / "model"), updates=1), out=tmp_path / "second")
    assert base_path(second / "checkpoints/latest/model") == str(second / "base")


def test_only_a_runs_own_base_takes_the_place_of_the_one_that_an_adapter_names(tmp_path: Path) -> None:
    net, tokenizer = small()
    save_pretrained(net, tokenizer, tmp_path / "right")
    save_pretrained(*small(seed=5), tmp_path / "base")
    lora.attach(net, 2, alpha=4)
    for folder in (tmp_path / "adapter", tmp_path / "a" / "b" / "adapter", tmp_path / "checkpoints" / "one" / "model"):
        save_adapter(net, tokenizer, folder, str(tmp_path / "right"))
        assert lora.read_base_name(folder) == str(tmp_path / "right")
    rename_base(folder, "/gone/base")
    assert lora.read_base_name(folder) == str(tmp_path / "base")
    rename_base(tmp_path / "adapter", "/gone/base")
    assert lora.read_base_name(tmp_path / "adapter") == "/gone/base"


@pytest.mark.parametrize(("layers", "targets", "lost"), [(1, "q_proj", 2), (3, lora.ALL, 14)])
def test_an_adapter_of_fewer_or_more_layers_is_not_merged(layers: int, targets: str, lost: int, tmp_path: Path) -> None:
    save_pretrained(*small(layers=2), tmp_path / "base")
    net, tokenizer = small(layers=layers)
    lora.attach(net, 2, alpha=4, targets=targets)
    save_adapter(net, tokenizer, tmp_path / "adapter", str(tmp_path / "base"))
    with pytest.raises(ValueError, match=rf"does not fit .*: {lost} weights are only in one of them") as error:
        load_pretrained(str(tmp_path / "adapter"))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("more", [{"use_dora": True}, {"modules_to_save": ["lm_head"]}], ids=str)
def test_adapters_of_other_kinds_are_merged_all_the_same(more: dict[str, Any], tmp_path: Path) -> None:
    net = model("gemma3_text", tie_word_embeddings=False)
    net.save_pretrained(tmp_path / "base")
    config = peft.LoraConfig(r=2, target_modules=["q_proj", "down_proj"], task_type="CAUSAL_LM", **more)
    theirs = peft.get_peft_model(net, config)
    with torch.no_grad():
        for weight in theirs.parameters():
            if weight.requires_grad:
                weight.add_(0.1 * torch.ones_like(weight))
    theirs.save_pretrained(tmp_path / "adapter")
    model_again = lora.merge(type(net).from_pretrained(tmp_path / "base"), tmp_path / "adapter")
    torch.testing.assert_close(next_logits(model_again, IDS), next_logits(theirs, IDS), atol=1e-4, rtol=1e-4)


def test_an_adapter_is_merged_in_float32_and_rounded_once(tmp_path: Path) -> None:
    """Steps of bfloat16 are 1/128 at 1: 1 + 0.002 + 0.0036 would be 1 if each sum were rounded."""
    net, tokenizer = small()
    lora.attach(net, 2, alpha=4)
    layer = net.model.layers[0].self_attn.q_proj
    with torch.no_grad():
        layer.base_layer.weight.fill_(1.002)
        layer.lora_A[lora.ADAPTER].weight.fill_(0.03)
        layer.lora_B[lora.ADAPTER].weight.fill_(0.03)
    with lora.without_adapters(net):
        save_pretrained(net, tokenizer, tmp_path / "base")
    save_adapter(net, tokenizer, tmp_path / "adapter", str(tmp_path / "base"))
    half, _ = load_pretrained(str(tmp_path / "adapter"), dtype=torch.bfloat16)
    assert {weight.dtype for weight in half.parameters()} == {torch.bfloat16} == {half.config.dtype}
    assert half.model.rotary_emb.inv_freq.dtype == torch.float32
    weight = half.model.layers[0].self_attn.q_proj.weight
    assert torch.equal(weight, torch.full_like(weight, 1.002 + 2 * 2 * 0.03 * 0.03))
    assert {weight.dtype for weight in load_pretrained(str(tmp_path / "adapter"), dtype="auto")[0].parameters()} == {
        torch.float32
    }


def test_an_adapter_that_is_its_own_base_is_refused(tmp_path: Path) -> None:
    net, tokenizer = small()
    lora.attach(net, 2, alpha=4)
    save_adapter(net, tokenizer, tmp_path / "one", str(tmp_path / "two"))
    save_adapter(net, tokenizer, tmp_path / "two", str(tmp_path / "one"))
    with pytest.raises(ValueError, match=r"one' has itself as its base") as error:
        load_pretrained(str(tmp_path / "one"))
    assert "\n" not in str(error.value)


def test_an_adapter_on_a_hub_is_refused_with_the_way_to_load_it(monkeypatch: Any) -> None:
    def told(self: Any, name: str, **more: Any) -> Any:
        return SimpleNamespace(siblings=[SimpleNamespace(rfilename=lora.CONFIG)])

    monkeypatch.setattr("huggingface_hub.HfApi.model_info", told)
    with pytest.raises(ValueError, match="model 'some/adapter' is an adapter: `hf download some/adapter --local-dir"):
        load_pretrained("some/adapter")


def test_nothing_half_written_is_left_of_a_base_that_does_not_fit_on_the_disk(tmp_path: Path) -> None:
    def half(folder: Path) -> None:
        folder.mkdir()
        (folder / "model.safetensors").write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    run = RunFolder.create(tmp_path / "run", "")
    before = set((tmp_path / "run").iterdir())
    with pytest.raises(UserError, match="base: no space left on device; make room"):
        run.write_folder("base", half)
    assert set((tmp_path / "run").iterdir()) == before


def test_what_a_cold_start_learned_by_is_gone_when_the_adapters_are_back() -> None:
    net = model_with_adapters()
    with lora.without_adapters(net, trainable=True):
        net(input_ids=torch.tensor([IDS])).logits.sum().backward()
        assert all(weight.grad is not None for weight in net.parameters())
    assert all(weight.grad is None for weight in net.parameters())


def test_a_lost_base_is_not_blamed_on_the_latest_checkpoint(tmp_path: Path) -> None:
    save_pretrained(*small(), tmp_path / "mine")
    out = train_run(*words(model=str(tmp_path / "mine")), out=tmp_path / "run")
    assert len(list((out / "checkpoints").glob("update-*"))) == 2 and weights(out)
    (tmp_path / "mine").rename(tmp_path / "elsewhere")
    message = refused("--resume", "--out", out, "--updates", 6)
    assert message.startswith(f"checkpoint {out}/checkpoints/update-000004 cannot be used: model '{tmp_path}/mine': ")
    assert "; remove " not in message
    (tmp_path / "elsewhere").rename(tmp_path / "mine")
    (out / "checkpoints/latest/model" / lora.CONFIG).write_text("{")
    assert refused("--resume", "--out", out, "--updates", 6).endswith(
        "; remove this folder to go on from update-000002"
    )
