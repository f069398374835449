"""LoRA adapters: their outputs and gradients, the weights they train, and their files."""

from __future__ import annotations

import asyncio
import io
import json
import re
from functools import partial

import numpy as np
import pytest
import torch

from rl.learner.learner import Learner
from rl.methods.parts import penalty, score
from rl.methods.recipes.grpo import recipe as grpo
from rl.methods.recipes.ppo import recipe as ppo
from rl.policy import branches, lora, tiny
from rl.policy.hf import HFPolicy
from rl.policy.pretrained import load_pretrained, save_adapter, save_pretrained
from rl.policy.vllm import weight_sync
from sandboxes.extras import install_command
from tests.rl.learner.test_packing import PLAIN, assert_close, histories, sequence_logprobs
from tests.rl.methods.test_gain_scores import forest, one_by_one
from tests.support.models import (
    OTHER_FAMILIES,
    PACKED_FAMILIES,
    model,
    next_logits,
    perturb_weights,
    teacher_forced_logprobs,
)
from tests.support.play import assert_learns, flat, random_groups, rows, sample_groups, sampler_logprobs, trajectories

peft = pytest.importorskip("peft")
FAMILIES = [*PACKED_FAMILIES, *OTHER_FAMILIES]
IDS = [3, 1, 4, 1, 5, 9, 2, 6]


def model_with_adapters(kind="llama", *, nonzero=True, targets=lora.ALL, seed=0):
    """A toy model with adapters of rank 4, whose second factor is 0 unless `nonzero`."""
    net = model(kind)
    lora.attach(net, 4, alpha=6, targets=targets, seed=seed)
    if nonzero:
        noise = torch.Generator().manual_seed(1)
        with torch.no_grad():
            for name, weight in net.named_parameters():
                if "lora_B" in name:
                    weight.normal_(generator=noise).mul_(0.3)
    return net


def adapter_weights(net):
    """Copies of the adapters' weights by name."""
    return {name: weight.detach().clone() for name, weight in net.named_parameters() if weight.requires_grad}


def load_with_peft(kind, folder):
    """The same model as peft loads it from the base and the adapter's files."""
    return peft.PeftModel.from_pretrained(model(kind), folder, is_trainable=True)


@pytest.mark.parametrize("kind", FAMILIES)
def test_new_adapters_change_no_bit_of_what_a_model_says_and_draw_from_their_seed(kind):
    rng_state = torch.get_rng_state()
    net = model_with_adapters(kind, nonzero=False)
    assert torch.equal(torch.get_rng_state(), rng_state)
    assert torch.equal(next_logits(net, IDS), next_logits(model(kind), IDS))
    again, other = (
        adapter_weights(model_with_adapters(kind, nonzero=False)),
        adapter_weights(model_with_adapters(kind, nonzero=False, seed=1)),
    )
    assert all(torch.equal(weight, again[name]) for name, weight in adapter_weights(net).items())
    assert any(not torch.equal(weight, other[name]) for name, weight in adapter_weights(net).items())


@pytest.mark.parametrize("kind", FAMILIES)
def test_log_probabilities_and_gradients_are_those_of_peft(kind, tmp_path):
    net = model_with_adapters(kind)
    lora.save(net, tmp_path, "nowhere")
    other = load_with_peft(kind, tmp_path)
    learner = Learner(net, lr=0.0, max_grad_norm=1e9)
    logprobs = flat(learner.logprobs(trajectories(random_groups())))
    expected = torch.cat([sequence_logprobs(other, ids, is_sampled) for ids, is_sampled, _ in histories()])
    np.testing.assert_allclose(logprobs, expected.tolist(), atol=2e-5)
    learner.update(rows(PLAIN), PLAIN)
    tokens = sum(sum(is_sampled) for _, is_sampled, _ in histories())
    for ids, is_sampled, reward in histories():
        (-reward * sequence_logprobs(other, ids, is_sampled).sum() / tokens).backward()
    expected_gradients = {
        name.removeprefix("base_model.model."): weight.grad for name, weight in other.named_parameters()
    }
    assert len(adapter_weights(net)) == sum(grad is not None for grad in expected_gradients.values()) > 10
    for name, weight in net.named_parameters():
        if weight.requires_grad:
            assert_close(weight.grad, expected_gradients[name], 2e-5)
        else:
            assert weight.grad is None and expected_gradients[name] is None


@pytest.mark.parametrize("kind", ["qwen2", "gemma3_text"])
def test_only_adapters_and_the_critic_are_trained_and_have_optimiser_state(kind):
    net = model_with_adapters(kind)
    before, adapters = dict(lora.merged_weights(net)), adapter_weights(net)
    frozen = {name: weight.clone() for name, weight in net.named_parameters() if not weight.requires_grad}
    learner = Learner(net, lr=1e-2, critic=True)
    groups = random_groups()
    asyncio.run(score.value(learner, groups))
    learner.update(rows(ppo, groups), ppo)
    assert all(torch.equal(weight, frozen[name]) for name, weight in net.named_parameters() if name in frozen)
    assert all(not torch.equal(weight, adapters[name]) for name, weight in adapter_weights(net).items())
    assert len(learner.optimizer.state) == len(adapters) + 2
    assert bool(learner.value_head.weight.any())
    assert any(not torch.equal(value, before[name]) for name, value in lora.merged_weights(net))


@pytest.mark.parametrize("kind", ["llama", "gemma3_text", "gpt2"])
def test_the_sampler_draws_from_the_adapted_model_and_shares_its_frozen_weights(kind):
    net = model_with_adapters(kind)
    policy, learner = HFPolicy(net), Learner(net, lr=1e-2)
    for _ in range(2):
        groups = sample_groups(policy, groups=2, size=3)
        np.testing.assert_allclose(flat(learner.logprobs(trajectories(groups))), sampler_logprobs(groups), atol=1e-4)
        metrics = learner.update(rows(grpo, groups), grpo)
        assert abs(metrics["kl/sampler_trainer"]) < 1e-8
        policy.sync_weights()
    frozen_addresses = {weight.data_ptr() for weight in net.parameters() if not weight.requires_grad}
    copy = policy.forward.model if kind != "llama" else None
    if copy is None:
        copy_weights = policy.forward.weights
        assert {copy_weights.embed.data_ptr(), copy_weights.layers[0].qkv[0].weight.data_ptr()} <= frozen_addresses
        assert copy_weights.layers[0].qkv[0].adapter.up.data_ptr() not in {w.data_ptr() for w in net.parameters()}
    else:
        addresses = [weight.data_ptr() for weight in copy.parameters()]
        assert sum(at in frozen_addresses for at in addresses) == len(frozen_addresses) and len(addresses) == len(
            frozen_addresses
        ) + len(adapter_weights(net))


def test_the_reference_is_the_model_without_its_adapters_and_no_copy():
    net = model_with_adapters(nonzero=False)
    learner = Learner(net, lr=1e-2, temperature=0.5)
    learner.freeze_reference()
    assert learner.reference_model is net and learner.state_dict()["reference"] is None
    recipe = grpo.but(penalty=(partial(penalty.kl_k2, coef=0.1),))
    groups = random_groups()
    for _ in range(3):
        asyncio.run(score.reference(learner, groups))
        learner.update(rows(recipe, groups), recipe)
    logprobs = learner.reference(trajectories(groups))
    (trajectory,) = groups[2].trajectories
    expected = teacher_forced_logprobs(model(), trajectory.turns[0].context, trajectory.turns[0].completion.ids, 0.5)
    np.testing.assert_allclose(logprobs[-1][0], expected, atol=1e-5)
    assert (
        max(abs(a - b) for a, b in zip(flat(logprobs), flat(learner.logprobs(trajectories(groups))), strict=True)) > 0.1
    )
    assert len(lora.adapter_layers(net)) == 14


@pytest.mark.parametrize("kind", ["qwen3", "gemma3_text"])
def test_continuations_are_scored_by_the_adapted_model(kind):
    net = model_with_adapters(kind)
    trunks, requests = forest()
    logprobs = branches.branch_logprobs(net, trunks, requests, max_tokens=10_000)
    for one, other in zip(logprobs, one_by_one(net, trunks, requests), strict=True):
        np.testing.assert_allclose(one, other, atol=2e-5)
    bare = branches.branch_logprobs(model(kind), trunks, requests, max_tokens=10_000)
    assert max(abs(a - b) for one, two in zip(logprobs, bare, strict=True) for a, b in zip(one, two, strict=True)) > 0.1


@pytest.mark.parametrize("kind", FAMILIES)
def test_an_engine_is_handed_the_merged_weights_by_the_base_models_names(kind):
    net, bare = model_with_adapters(kind), model(kind)
    before = {name: value.clone() for name, value in net.state_dict().items()}
    assert list(dict(weight_sync.named_weights(net))) == list(dict(weight_sync.named_weights(bare)))
    merged = dict(lora.merged_weights(net))
    assert list(merged) == list(bare.state_dict())
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    names = {name for name, value in bare.state_dict().items() if not torch.equal(merged[name], value)}
    assert len(names) >= 8 and not any("norm" in name or "embed" in name for name in names)
    bare.load_state_dict(merged)
    torch.testing.assert_close(next_logits(bare, IDS), next_logits(net, IDS), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("kind", FAMILIES)
def test_on_a_disk_they_are_pefts_own_and_come_back_bit_for_bit(kind, tmp_path):
    net = model_with_adapters(kind)
    lora.save(net, tmp_path, "some/base")
    assert {path.name for path in tmp_path.iterdir()} == {"adapter_config.json", "adapter_model.safetensors"}
    assert json.loads((tmp_path / "adapter_config.json").read_text())["base_model_name_or_path"] == "some/base"
    assert torch.equal(next_logits(load_with_peft(kind, tmp_path), IDS), next_logits(net, IDS))
    again = model_with_adapters(kind, nonzero=False, seed=5)
    lora.restore(again, tmp_path)
    assert all(torch.equal(weight, adapter_weights(net)[name]) for name, weight in adapter_weights(again).items())
    with pytest.raises(ValueError, match="not those of this model"):
        lora.restore(model_with_adapters("llama" if kind == "gpt2" else "gpt2"), tmp_path)


def test_a_folder_of_adapters_loads_as_a_merged_model_wherever_its_base_went(tmp_path):
    net, tokenizer = tiny.create(hidden=32, layers=1, heads=1, intermediate=32)
    base, folder = tmp_path / "run" / "base", tmp_path / "run" / "checkpoints" / "latest" / "model"
    save_pretrained(net, tokenizer, base)
    lora.attach(net, 2, alpha=4)
    perturb_weights(net, 0)
    with lora.without_adapters(net):
        net.load_state_dict(load_pretrained(str(base))[0].state_dict())
    save_adapter(net, tokenizer, folder, str(base))
    (tmp_path / "run").rename(tmp_path / "moved")
    merged, merged_tokenizer = load_pretrained(str(tmp_path / "moved"))
    assert not lora.adapter_layers(merged) and all(weight.requires_grad for weight in merged.parameters())
    assert merged_tokenizer.chat_template == tokenizer.chat_template
    torch.testing.assert_close(next_logits(merged, IDS), next_logits(net, IDS), atol=1e-5, rtol=1e-5)
    lora.attach(merged, 3, alpha=6)
    assert len(lora.adapter_layers(merged)) == 7 and merged.peft_config[lora.ADAPTER].r == 3
    (tmp_path / "moved" / "base").rename(tmp_path / "elsewhere")
    with pytest.raises(ValueError, match=rf"its base does not load: model '{base}': no such folder"):
        load_pretrained(str(tmp_path / "moved"))


def test_taken_off_and_put_back_they_are_what_they_were():
    net = model_with_adapters("qwen2")
    logits, names = next_logits(net, IDS), list(net.state_dict())
    with pytest.raises(KeyError), lora.without_adapters(net, trainable=True):
        assert all(weight.requires_grad for weight in net.parameters())
        assert list(net.state_dict()) == list(model("qwen2").state_dict())
        assert torch.equal(next_logits(net, IDS), next_logits(model("qwen2"), IDS))
        raise KeyError
    assert torch.equal(next_logits(net, IDS), logits) and list(net.state_dict()) == names
    assert all(weight.requires_grad == (".lora_" in name) for name, weight in net.named_parameters())


def test_targets_are_names_of_layers_and_others_are_refused_with_those_there_are():
    net = model_with_adapters(targets="q_proj, v_proj")
    assert {name.rpartition(".")[2] for name, _ in lora.adapter_layers(net)} == {"q_proj", "v_proj"}
    with pytest.raises(ValueError, match="no linear layer is called 'query'; there are down_proj, gate_proj"):
        model_with_adapters(targets="q_proj,query")
    with pytest.raises(ValueError, match="names nothing"):
        model_with_adapters(targets=" ,")


def test_without_peft_the_error_names_the_extra(monkeypatch):
    monkeypatch.setattr("rl.policy.extras.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=re.escape(install_command("lora"))):
        model_with_adapters()


def test_adapters_alone_solve_a_solvable_toy():
    assert_learns(model_with_adapters(nonzero=False), lr=3e-2)


def test_a_learner_of_adapters_that_was_saved_goes_on_bit_by_bit():
    def go_on(learner, first, last):
        return [learner.update(rows(grpo, random_groups(n)), grpo, seed=n) for n in range(first, last)]

    first = Learner(model_with_adapters(), lr=1e-2, minibatches=2)
    go_on(first, 0, 2)
    file = io.BytesIO()
    torch.save((first.state_dict(), adapter_weights(first.model)), file)
    expected = go_on(first, 2, 4)
    file.seek(0)
    state, saved_weights = torch.load(file, weights_only=True)
    second = Learner(model_with_adapters(seed=3), lr=1e-2, minibatches=2)
    second.model.load_state_dict(saved_weights, strict=False)
    second.load_state_dict(state)
    assert go_on(second, 2, 4) == expected
    assert all(
        torch.equal(weight, adapter_weights(first.model)[name])
        for name, weight in adapter_weights(second.model).items()
    )
