"""The model's own forward on packed tokens gives what each history gives alone, or the trial refuses it."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from packaging.version import Version

from rl.learner import forward, logprobs
from rl.learner.own_forward import abilities
from rl.policy import lora
from tests.rl.learner.test_packing import PLAIN, assert_close, gradient, learner, rows, sequence_logprobs
from tests.rl.learner.test_recompute import long_rows, train_once
from tests.support.models import model

EXPERTS = {"num_experts": 4, "num_local_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
WINDOW = {"sliding_window": 8, "layer_types": ["sliding_attention", "full_attention"]}
PACKS: dict[str, dict[str, Any]] = {
    "llama": {},
    "qwen2": {},
    "qwen2 window": {"use_sliding_window": True, "max_window_layers": 0, **WINDOW},
    "qwen3": {},
    "mistral": {"sliding_window": 8},
    "gemma2": {**WINDOW, "attn_logit_softcapping": 3.0, "final_logit_softcapping": 2.0},
    "gemma3_text": WINDOW,
    "gpt2": {"num_key_value_heads": 4},
    "phi": {},  # a bias behind the output matrix
    "phi3": {"sliding_window": 8},
    "mixtral": EXPERTS,
    "mixtral window": {**EXPERTS, "sliding_window": 8},
    "qwen3_moe": EXPERTS,
    "olmo3": WINDOW,
    "gpt_oss": {**EXPERTS, **WINDOW},  # sinks
    "granite": {"logits_scaling": 3.0},
    "cohere2": {**WINDOW, "logit_scale": 0.3},
    "deepseek_v3": {  # heads of values have another size
        **EXPERTS,
        **{"n_routed_experts": 4, "n_shared_experts": 1, "n_group": 1, "topk_group": 1, "first_k_dense_replace": 1},
        **{"q_lora_rank": 16, "kv_lora_rank": 16, "qk_rope_head_dim": 4, "qk_nope_head_dim": 4, "v_head_dim": 16},
        **{"head_dim": 4, "num_key_value_heads": 4},
    },
}
LINEAR = {"linear_num_value_heads": 4, "linear_num_key_heads": 2, "linear_key_head_dim": 8, "linear_value_head_dim": 8}
MIXES: dict[str, dict[str, Any]] = {
    "bloom": {},  # attention of their own
    "mpt": {},
    "stablelm": {},  # hands no arguments on to its attention
    "lfm2": {"layer_types": ["conv", "full_attention"]},  # states that run from token to token
    "qwen3_next": {**EXPERTS, **LINEAR},
}

# Before, GPT-J has attention of its own.
(PACKS if Version(transformers.__version__) >= Version("5.24") else MIXES)["gptj"] = {"rotary_dim": 4}


def family(name: str) -> Any:
    """A model of this family with noise on biases, norms and sinks, which begin at values that do nothing."""
    net = model(name.split()[0], **PACKS.get(name, MIXES.get(name, {})))
    noise = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weight in net.parameters():
            if weight.ndim == 1:
                weight += 0.1 * torch.randn(weight.shape, generator=noise)
    return net


@pytest.fixture
def own_forward(monkeypatch: pytest.MonkeyPatch) -> None:
    """The families that `rl.policy.decoder` covers go through their own forward too."""
    monkeypatch.setattr(forward, "is_supported", lambda net: False)


def per_row_gradient(net: Any, batch: list) -> torch.Tensor:
    """The gradient of `PLAIN` by one plain forward for each row."""
    net.zero_grad()
    tokens = sum(int(row.mask.sum()) for row in batch)
    for row in batch:
        ids, mask = [*row.prefix, *row.ids.tolist()], np.concatenate([np.zeros(len(row.prefix), bool), row.mask])
        advantages = torch.as_tensor(row.adv[row.mask])
        (-(advantages * sequence_logprobs(net, ids, mask)).sum() / tokens).backward()
    return gradient(net)


@pytest.mark.parametrize("name", PACKS)
@pytest.mark.usefixtures("own_forward")
def test_packed_gradients_are_those_of_each_row_alone(name: str) -> None:
    net = family(name)
    assert abilities(net).packs
    for batch in (list(rows()), long_rows(2, turns=4)):  # the latter are longer than the windows
        metrics = learner(net, microbatch_tokens=10**6).update(batch, PLAIN)
        actual = gradient(net)
        assert_close(actual, per_row_gradient(net, batch))
        net.zero_grad()
        assert metrics["grad_norm"] > 0


@pytest.mark.parametrize("name", PACKS)
@pytest.mark.usefixtures("own_forward")
def test_with_blocks_computed_again_they_have_the_same_bits(name: str) -> None:
    net = family(name)
    plain, again = (train_once(net, long_rows(2, turns=4), recompute) for recompute in (False, True))
    assert float(plain[0].norm()) > 0
    assert torch.equal(plain[0], again[0]) and plain[1] == again[1]
    assert not any("forward" in vars(module) for module in net.modules())


@pytest.mark.parametrize("name", MIXES)
def test_families_that_would_mix_packed_sequences_are_found_and_padded(name: str) -> None:
    net = family(name)
    assert not abilities(net).packs
    batch = list(rows())
    learner(net).update(batch, PLAIN)
    assert_close(gradient(net), per_row_gradient(net, batch))


@pytest.mark.parametrize("name", ["gemma2", "phi", "granite", "cohere2"])
def test_logits_that_are_more_than_a_product_are_computed_in_chunks_too(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    net = family(name)
    assert abilities(net) == (True, True, False)
    learner(net).update(list(rows()), PLAIN)
    whole = gradient(net)
    net.zero_grad()
    sizes, own_head = [], forward.own_head

    def head(net: Any) -> Any:
        logits = own_head(net)
        return lambda states: sizes.append(len(states)) or logits(states)

    monkeypatch.setattr(logprobs, "WHOLE_LOGITS", 1)
    monkeypatch.setattr(logprobs, "CHUNK_LOGITS", 7 * 40)
    monkeypatch.setattr(forward, "own_head", head)
    learner(net).update(list(rows()), PLAIN)
    assert_close(gradient(net), whole)
    assert max(sizes) == 7


def test_the_way_is_found_in_half_precision_too() -> None:
    for name in ("qwen3_moe", "gemma3_text", "gpt_oss"):
        assert abilities(family(name).bfloat16()).packs
    for name in ("lfm2", "bloom"):
        assert not abilities(family(name).bfloat16()).packs


def test_a_window_that_only_the_mask_knows_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers.models.mistral.modeling_mistral import MistralAttention

    net = family("mistral")
    plain = MistralAttention.forward

    def forgetful(self: Any, *args: Any, **options: Any) -> Any:
        monkeypatch.setattr(self.config, "sliding_window", None)
        try:
            return plain(self, *args, **options)
        finally:
            monkeypatch.setattr(self.config, "sliding_window", 64)

    net.config.sliding_window = 64  # longer than the trial's rows
    assert abilities(family("mistral")).packs
    monkeypatch.setattr(MistralAttention, "forward", forgetful)
    assert not abilities(net).packs


def test_the_model_is_left_as_it_was(caplog: pytest.LogCaptureFixture) -> None:
    net = family("qwen3_moe").train()
    before = net.config._attn_implementation
    state = torch.random.get_rng_state()
    with caplog.at_level(logging.WARNING):
        assert abilities(net).packs
    assert net.training and net.config._attn_implementation == before
    assert torch.equal(torch.random.get_rng_state(), state)
    assert all(weight.grad is None for weight in net.parameters())
    assert not caplog.records


def test_adapters_and_the_frozen_model_below_them_are_packed() -> None:
    net = family("qwen3_moe")
    lora.attach(net, 4, alpha=8)
    batch = list(rows())
    learner(net).update(batch, PLAIN)
    actual = gradient(net)
    assert abilities(net).packs and float(actual.norm()) > 0
    assert_close(actual, per_row_gradient(net, batch))
