"""Adapters: what they compute, what of a model they train, and what they look like on a disk."""

from __future__ import annotations

import asyncio
import io
import json
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
from rl.policy.load import load, save, save_adapter
from rl.policy.vllm import weight_sync
from tests.rl.learner.test_packing import PLAIN, assert_close, histories, whole
from tests.rl.methods.test_gain_scores import forest, one_by_one
from tests.support.models import LEAN, OTHER, model, next_logits, shaken, teacher_forced
from tests.support.play import assert_learns, flat, invented_groups, recorded, rows, sampled_groups, trajectories

peft = pytest.importorskip("peft")
FAMILIES = [*LEAN, *OTHER]
IDS = [3, 1, 4, 1, 5, 9, 2, 6]


def adapted(kind="llama", *, moved=True, targets=lora.ALL, seed=0):
    """A toy model with adapters of rank 4; `moved` ones compute something."""
    net = model(kind)
    lora.attach(net, 4, alpha=6, targets=targets, seed=seed)
    if moved:
        noise = torch.Generator().manual_seed(1)
        with torch.no_grad():
            for name, weight in net.named_parameters():
                if "lora_B" in name:
                    weight.normal_(generator=noise).mul_(0.3)
    return net


def own(net):
    """The adapters' weights, by name, as they are now."""
    return {name: weight.detach().clone() for name, weight in net.named_parameters() if weight.requires_grad}


def plain(kind, folder):
    """The same model as peft alone makes it of the base and the files."""
    return peft.PeftModel.from_pretrained(model(kind), folder, is_trainable=True)


@pytest.mark.parametrize("kind", FAMILIES)
def test_new_adapters_change_no_bit_of_what_a_model_says_and_draw_from_their_seed(kind):
    luck = torch.get_rng_state()
    net = adapted(kind, moved=False)
    assert torch.equal(torch.get_rng_state(), luck)
    assert torch.equal(next_logits(net, IDS), next_logits(model(kind), IDS))
    again, other = own(adapted(kind, moved=False)), own(adapted(kind, moved=False, seed=1))
    assert all(torch.equal(weight, again[name]) for name, weight in own(net).items())
    assert any(not torch.equal(weight, other[name]) for name, weight in own(net).items())


@pytest.mark.parametrize("kind", FAMILIES)
def test_log_probabilities_and_gradients_are_those_of_peft(kind, tmp_path):
    net = adapted(kind)
    lora.save(net, tmp_path, "nowhere")
    other = plain(kind, tmp_path)
    learner = Learner(net, lr=0.0, max_grad_norm=1e9)
    found = flat(learner.logprobs(trajectories(invented_groups())))
    wanted = torch.cat([whole(other, ids, sampled) for ids, sampled, _ in histories()])
    np.testing.assert_allclose(found, wanted.tolist(), atol=2e-5)
    learner.update(rows(PLAIN), PLAIN)
    tokens = sum(sum(sampled) for _, sampled, _ in histories())
    for ids, sampled, reward in histories():
        (-reward * whole(other, ids, sampled).sum() / tokens).backward()
    theirs = {name.removeprefix("base_model.model."): weight.grad for name, weight in other.named_parameters()}
    assert len(own(net)) == sum(grad is not None for grad in theirs.values()) > 10
    for name, weight in net.named_parameters():
        if weight.requires_grad:
            assert_close(weight.grad, theirs[name], 2e-5)
        else:
            assert weight.grad is None and theirs[name] is None


@pytest.mark.parametrize("kind", ["qwen2", "gemma3_text"])
def test_only_adapters_and_the_critic_are_trained_and_have_optimiser_state(kind):
    net = adapted(kind)
    before, moved = dict(lora.merged(net)), own(net)
    frozen = {name: weight.clone() for name, weight in net.named_parameters() if not weight.requires_grad}
    learner = Learner(net, lr=1e-2, critic=True)
    groups = invented_groups()
    asyncio.run(score.value(learner, groups))
    learner.update(rows(ppo, groups), ppo)
    assert all(torch.equal(weight, frozen[name]) for name, weight in net.named_parameters() if name in frozen)
    assert all(not torch.equal(weight, moved[name]) for name, weight in own(net).items())
    assert len(learner.optimizer.state) == len(moved) + 2
    assert bool(learner.head.weight.any())
    assert any(not torch.equal(value, before[name]) for name, value in lora.merged(net))


@pytest.mark.parametrize("kind", ["llama", "gemma3_text", "gpt2"])
def test_the_sampler_draws_from_the_adapted_model_and_shares_its_frozen_weights(kind):
    net = adapted(kind)
    policy, learner = HFPolicy(net), Learner(net, lr=1e-2)
    for _ in range(2):
        groups = sampled_groups(policy, groups=2, size=3)
        np.testing.assert_allclose(flat(learner.logprobs(trajectories(groups))), recorded(groups), atol=1e-4)
        seen = learner.update(rows(grpo, groups), grpo)
        assert abs(seen["kl/sampler_trainer"]) < 1e-8
        policy.refresh()
    where = {weight.data_ptr() for weight in net.parameters() if not weight.requires_grad}
    copy = policy.forward.model if kind != "llama" else None
    if copy is None:
        kept = policy.forward.weights
        assert {kept.embed.data_ptr(), kept.layers[0].qkv[0].weight.data_ptr()} <= where
        assert kept.layers[0].qkv[0].adapter.up.data_ptr() not in {w.data_ptr() for w in net.parameters()}
    else:
        held = [weight.data_ptr() for weight in copy.parameters()]
        assert sum(at in where for at in held) == len(where) and len(held) == len(where) + len(own(net))


def test_the_reference_is_the_model_without_its_adapters_and_no_copy():
    net = adapted(moved=False)
    learner = Learner(net, lr=1e-2, temperature=0.5)
    learner.freeze_reference()
    assert learner.frozen is net and learner.state_dict()["reference"] is None
    recipe = grpo.but(penalty=(partial(penalty.kl_k2, coef=0.1),))
    groups = invented_groups()
    for _ in range(3):
        asyncio.run(score.reference(learner, groups))
        learner.update(rows(recipe, groups), recipe)
    found = learner.reference(trajectories(groups))
    (played,) = groups[2].trajectories
    wanted = teacher_forced(model(), played.turns[0].context, played.turns[0].completion.ids, 0.5)
    np.testing.assert_allclose(found[-1][0], wanted, atol=1e-5)
    assert max(abs(a - b) for a, b in zip(flat(found), flat(learner.logprobs(trajectories(groups))), strict=True)) > 0.1
    assert len(lora.layers(net)) == 14


@pytest.mark.parametrize("kind", ["qwen3", "gemma3_text"])
def test_continuations_are_scored_by_the_adapted_model(kind):
    net = adapted(kind)
    trunks, asked = forest()
    found = branches.logprobs(net, trunks, asked, budget=10_000)
    for one, other in zip(found, one_by_one(net, trunks, asked), strict=True):
        np.testing.assert_allclose(one, other, atol=2e-5)
    bare = branches.logprobs(model(kind), trunks, asked, budget=10_000)
    assert max(abs(a - b) for one, two in zip(found, bare, strict=True) for a, b in zip(one, two, strict=True)) > 0.1


@pytest.mark.parametrize("kind", FAMILIES)
def test_an_engine_is_handed_the_merged_weights_by_the_base_models_names(kind):
    net, bare = adapted(kind), model(kind)
    before = {name: value.clone() for name, value in net.state_dict().items()}
    handed = dict(weight_sync.weights(net))
    assert list(handed) == list(bare.state_dict())
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    changed = {name for name, value in bare.state_dict().items() if not torch.equal(handed[name], value)}
    assert len(changed) >= 8 and not any("norm" in name or "embed" in name for name in changed)
    bare.load_state_dict(handed)
    torch.testing.assert_close(next_logits(bare, IDS), next_logits(net, IDS), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("kind", FAMILIES)
def test_on_a_disk_they_are_pefts_own_and_come_back_bit_for_bit(kind, tmp_path):
    net = adapted(kind)
    lora.save(net, tmp_path, "some/base")
    assert {path.name for path in tmp_path.iterdir()} == {"adapter_config.json", "adapter_model.safetensors"}
    assert json.loads((tmp_path / "adapter_config.json").read_text())["base_model_name_or_path"] == "some/base"
    assert torch.equal(next_logits(plain(kind, tmp_path), IDS), next_logits(net, IDS))
    again = adapted(kind, moved=False, seed=5)
    lora.restore(again, tmp_path)
    assert all(torch.equal(weight, own(net)[name]) for name, weight in own(again).items())
    with pytest.raises(ValueError, match="not those of this model"):
        lora.restore(adapted("llama" if kind == "gpt2" else "gpt2"), tmp_path)


def test_a_folder_of_adapters_loads_as_a_merged_model_wherever_its_base_went(tmp_path):
    net, tokenizer = tiny.create(hidden=32, layers=1, heads=1, intermediate=32)
    base, folder = tmp_path / "run" / "base", tmp_path / "run" / "checkpoints" / "latest" / "model"
    save(net, tokenizer, base)
    lora.attach(net, 2, alpha=4)
    shaken(net, 0)
    with lora.lifted(net):
        net.load_state_dict(load(str(base))[0].state_dict())
    save_adapter(net, tokenizer, folder, str(base))
    (tmp_path / "run").rename(tmp_path / "moved")
    found, words = load(str(tmp_path / "moved"))
    assert not lora.layers(found) and all(weight.requires_grad for weight in found.parameters())
    assert words.chat_template == tokenizer.chat_template
    torch.testing.assert_close(next_logits(found, IDS), next_logits(net, IDS), atol=1e-5, rtol=1e-5)
    lora.attach(found, 3, alpha=6)
    assert len(lora.layers(found)) == 7 and found.peft_config[lora.ADAPTER].r == 3
    (tmp_path / "moved" / "base").rename(tmp_path / "elsewhere")
    with pytest.raises(ValueError, match=rf"its base does not load: model '{base}': no such folder"):
        load(str(tmp_path / "moved"))


def test_taken_off_and_put_back_they_are_what_they_were():
    net = adapted("qwen2")
    said, names = next_logits(net, IDS), list(net.state_dict())
    with pytest.raises(KeyError), lora.lifted(net, trainable=True):
        assert all(weight.requires_grad for weight in net.parameters())
        assert list(net.state_dict()) == list(model("qwen2").state_dict())
        assert torch.equal(next_logits(net, IDS), next_logits(model("qwen2"), IDS))
        raise KeyError
    assert torch.equal(next_logits(net, IDS), said) and list(net.state_dict()) == names
    assert all(weight.requires_grad == (".lora_" in name) for name, weight in net.named_parameters())


def test_targets_are_names_of_layers_and_others_are_refused_with_those_there_are():
    net = adapted(targets="q_proj, v_proj")
    assert {name.rpartition(".")[2] for name, _ in lora.layers(net)} == {"q_proj", "v_proj"}
    with pytest.raises(ValueError, match="no linear layer is called 'query'; there are down_proj, gate_proj"):
        adapted(targets="q_proj,query")
    with pytest.raises(ValueError, match="names nothing"):
        adapted(targets=" ,")


def test_without_peft_the_error_names_the_extra(monkeypatch):
    monkeypatch.setattr("rl.policy.extras.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"pip install 'turnwise\[lora\]'"):
        adapted()


def test_adapters_alone_solve_a_solvable_toy():
    assert_learns(adapted(moved=False), lr=3e-2)


def test_a_learner_of_adapters_that_was_saved_goes_on_bit_by_bit():
    def go_on(learner, first, last):
        return [learner.update(rows(grpo, invented_groups(n)), grpo, seed=n) for n in range(first, last)]

    first = Learner(adapted(), lr=1e-2, minibatches=2)
    go_on(first, 0, 2)
    file = io.BytesIO()
    torch.save((first.state_dict(), own(first.model)), file)
    wanted = go_on(first, 2, 4)
    file.seek(0)
    state, saved = torch.load(file, weights_only=True)
    second = Learner(adapted(seed=3), lr=1e-2, minibatches=2)
    second.model.load_state_dict(saved, strict=False)
    second.load_state_dict(state)
    assert go_on(second, 2, 4) == wanted
    assert all(torch.equal(weight, own(first.model)[name]) for name, weight in own(second.model).items())
