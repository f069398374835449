"""What makes a model fit, in vLLM: it computes with the merged weights of adapters, and takes over bfloat16."""

import numpy as np
import pytest
import torch
from toy_models import teacher_forced
from toy_sampling import params, prompt_of, sampled
from toy_vllm import assert_alike, needs_vllm, started, tall

from rl.policy import lora
from rl.policy.hf import HFPolicy

pytestmark = needs_vllm


def pairs(one, two):
    return zip(one.model_logprobs, two.model_logprobs, strict=False)


@pytest.mark.parametrize("kind", ["qwen2", "gemma3_text"])
def test_a_trained_adapters_tokens_are_those_of_the_hf_engine(kind):
    pytest.importorskip("peft")
    more = {"qwen2": {"tie_word_embeddings": True}, "gemma3_text": {"query_pre_attn_scalar": 32}}
    net = tall(kind, **more[kind])
    lora.attach(net, 4, alpha=8)
    asked = [(prompt_of(n), params(n, 12, temperature=float(n % 2), stop=())) for n in range(6)]
    with started(net, slots=8) as policy:
        first = sampled(policy, *asked)
        noise = torch.Generator().manual_seed(0)
        with torch.no_grad():
            for name, weight in net.named_parameters():
                if "lora_B" in name:
                    weight.normal_(generator=noise)  # Gemma's embeddings are loud
        policy.refresh()
        assert policy.gap < 1e-4
        second = sampled(policy, *asked)
    assert max(abs(a - b) for one, two in zip(first, second, strict=True) for a, b in pairs(one, two)) > 1e-3
    assert_alike(second, sampled(HFPolicy(net), *asked))
    for (prompt, _), reply in zip(asked, second, strict=True):
        np.testing.assert_allclose(reply.model_logprobs, teacher_forced(net, prompt, reply.ids), atol=1e-4)


def test_weights_in_bfloat16_are_taken_over_exactly():
    """A CPU's vLLM computes in float32, so it says what the same weights say there."""
    net = tall("qwen2")
    for weight in net.parameters():
        weight.data = weight.data.to(torch.bfloat16)
    exact = tall("qwen2")
    exact.load_state_dict({name: value.float() for name, value in net.state_dict().items()})
    asked = [(prompt_of(n), params(n, 12, stop=())) for n in range(6)]
    with started(net, slots=8) as policy:
        assert 1e-4 < policy.gap < 0.5
        found = sampled(policy, *asked)
    assert_alike(found, sampled(HFPolicy(exact), *asked))
