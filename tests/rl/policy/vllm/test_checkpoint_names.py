"""Weights are handed over by the names of checkpoints: what is merged, renamed and split on the way."""

from importlib.util import find_spec
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText

from rl.policy import lora
from rl.policy.pretrained import load_pretrained, save_pretrained
from rl.policy.vllm.checkpoint_names import checkpoint_weights
from rl.policy.vllm.weight_sync import named_weights, push_weights
from tests.support.models import model, perturb_weights, teacher_forced_logprobs
from tests.support.sampling import params, sample_all
from tests.support.vllm import open_vllm

TEXT = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 30}
VISION = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
VISION |= {"image_size": 16, "patch_size": 8}
EXPERTS = {"num_local_experts": 3, "num_experts": 3, "num_experts_per_tok": 2, "moe_intermediate_size": 8}
PROMPTS = [[(7 * i + n) % 200 for i in range(n)] for n in (3, 33, 50)]


def llava():
    vision = {**VISION, "model_type": "clip_vision_model"}
    config = AutoConfig.for_model("llava", text_config={**TEXT, "model_type": "llama"}, vision_config=vision)
    return AutoModelForImageTextToText.from_config(config)


def renamed(net):
    return dict(named_weights(net))


def test_a_family_whose_names_are_those_of_its_files_is_handed_over_as_it_is():
    net = model("qwen3", tie_word_embeddings=True)
    weights = renamed(net)
    assert list(weights) == list(net.state_dict()) and "lm_head.weight" in weights
    assert all(weights[name].data_ptr() == value.data_ptr() for name, value in net.state_dict().items())


def test_a_vision_language_model_has_the_names_of_its_familys_files(tmp_path):
    """Those of the first LLaVA: `language_model.model.` and `vision_tower.vision_model.`, whatever it was saved with."""
    net = llava()
    names = set(renamed(net))
    assert {name.partition(".")[0] for name in names} == {"language_model", "vision_tower", "multi_modal_projector"}
    assert {"language_model.lm_head.weight", "language_model.model.embed_tokens.weight"} < names
    assert "vision_tower.vision_model.embeddings.class_embedding" in names
    assert len(names) == len(net.state_dict())
    net.save_pretrained(tmp_path)
    assert set(renamed(AutoModelForImageTextToText.from_pretrained(tmp_path))) == names


def with_experts(kind):
    config = AutoConfig.for_model(kind, **TEXT, num_key_value_heads=2, head_dim=8, **EXPERTS)
    return AutoModelForCausalLM.from_config(config)


def test_the_experts_of_a_layer_stay_one_tensor_where_vllm_reads_it():
    net = with_experts("qwen3_moe")
    weights = renamed(net)
    assert list(weights) == list(net.state_dict())
    assert all(weights[name].data_ptr() == value.data_ptr() for name, value in net.state_dict().items())


def test_experts_that_vllm_knows_by_number_are_parted_one_layer_after_another():
    net = with_experts("mixtral")
    own, weights = net.state_dict(), renamed(net)
    joined, layer = own["model.layers.0.mlp.experts.gate_up_proj"], "model.layers.0.block_sparse_moe"
    assert torch.equal(weights[f"{layer}.gate.weight"], own["model.layers.0.mlp.gate.weight"])
    for number in range(3):
        gate, up = joined[number].chunk(2)
        first, third, second = (weights[f"{layer}.experts.{number}.w{n}.weight"] for n in (1, 3, 2))
        assert torch.equal(first, gate) and torch.equal(third, up)
        assert torch.equal(second, own["model.layers.0.mlp.experts.down_proj"][number])
    assert sum(value.numel() for value in weights.values()) == sum(value.numel() for value in own.values())
    assert not list(weights)[-1].endswith(("w1.weight", "w2.weight", "w3.weight"))  # they came with their layer


def test_weights_that_files_hold_as_one_are_joined():
    net = AutoModelForCausalLM.from_config(AutoConfig.for_model("hrm_text", **TEXT, num_key_value_heads=2))
    own, weights = net.state_dict(), renamed(net)
    block = "model.L_module.layers.0"
    parts = [own[f"{block}.mlp.{name}_proj.weight"] for name in ("gate", "up")]
    assert torch.equal(weights[f"{block}.mlp.gate_up_proj.weight"], torch.cat(parts))
    assert torch.equal(weights[f"{block}.attn.o_proj.weight"], own[f"{block}.self_attn.o_proj.weight"])
    assert sum(value.numel() for value in weights.values()) == sum(value.numel() for value in own.values())


def test_adapters_are_merged_into_the_weights_that_are_renamed():
    pytest.importorskip("peft")
    net = llava()
    before = renamed(net)
    lora.attach(net, 2, alpha=4, targets="q_proj")
    assert set(renamed(net)) == set(before)
    with torch.no_grad():
        for weight in lora.adapter_weights(net).values():
            weight.fill_(0.5)
    after = renamed(net)
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert {name.rpartition(".self_attn.")[2] for name in changed} == {"q_proj.weight"} and len(changed) == 2
    base = checkpoint_weights(net, lora.base_weights(net), lora.base_weights(net).items())
    assert {name: value.data_ptr() for name, value in base} == {name: v.data_ptr() for name, v in before.items()}


def test_a_name_that_vllm_does_not_know_is_told_in_one_short_line():
    def refuse(weights):
        raise ValueError(
            f"There is no module or parameter named 'a.b' in C. The available parameters are: {{{'x' * 9999}}}"
        )

    engine = SimpleNamespace(config=SimpleNamespace(lora_rank=0), load_weights=refuse)
    with pytest.raises(ValueError, match=r"^There is no module or parameter named 'a.b' in C of vLLM, .*--engine hf$"):
        push_weights(engine, model("llama"))


@pytest.fixture
def gemma3(tmp_path):
    """A Gemma 3 with a vision tower, as it is loaded from its files."""
    if find_spec("vllm") is None:
        pytest.skip("vLLM is not installed")
    pytest.importorskip("torchvision", reason="vLLM reads images with torchvision")
    pytest.importorskip("PIL", reason="needs Pillow: the extra vision")
    from tests.support.vision import vision_model

    folder = tmp_path / "model"
    save_pretrained(*vision_model("gemma3"), folder)
    return load_pretrained(str(folder))[0]


@pytest.mark.parametrize("separate_process", [False, True])
def test_a_gemma_3_with_a_vision_tower_samples_by_its_forward_before_and_after_new_weights(gemma3, separate_process):
    requests = [(prompt, params(n, 12, stop=())) for n, prompt in enumerate(PROMPTS)]
    replies = []
    with open_vllm(gemma3, slots=4, context=128, separate_process=separate_process) as policy:
        for seed in (1, 2):
            replies.append(sample_all(policy, *requests))
            for (prompt, _), reply in zip(requests, replies[-1], strict=True):
                expected = teacher_forced_logprobs(gemma3, prompt, reply.ids)
                np.testing.assert_allclose(reply.model_logprobs, expected, atol=1e-4)
            perturb_weights(gemma3, seed, 0.03)
            policy.sync_weights()
            assert policy.logprob_gap < 1e-4
    changes = [abs(a.model_logprobs[0] - b.model_logprobs[0]) for a, b in zip(*replies, strict=True)]
    assert max(changes) > 1e-3
