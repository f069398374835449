"""Toy models with LoRA adapters for tests of engines, and a comparison of an engine with the trainer."""

import numpy as np
import torch

from rl.policy import lora
from rl.policy.hf import HFPolicy
from tests.support.models import teacher_forced_logprobs
from tests.support.sampling import make_prompt, params, sample_all
from tests.support.vllm import assert_replies_match, vllm_model

REQUESTS = [(make_prompt(n), params(n, 16, temperature=0.5 + 0.5 * (n % 3), stop=())) for n in range(8)]


def model_with_adapters(kind="llama", rank=3, targets=lora.ALL, **changes):
    """Return a toy model that vLLM supports, with new adapters, which change nothing yet."""
    net = vllm_model(kind, **changes)
    lora.attach(net, rank, alpha=2 * rank, targets=targets)
    return net


def perturb_adapters(net, seed, size=0.05):
    """Add noise to every adapter weight, in place, as an update would."""
    noise = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in net.named_parameters():
            if lora.is_adapter_weight(name):
                weight += size * torch.randn(weight.shape, generator=noise)


def assert_matches_trainer(policy):
    """Assert that replies are those of the hf engine, with the trainer's log-probabilities; return them."""
    replies = sample_all(policy, *REQUESTS)
    for (prompt, _), reply in zip(REQUESTS, replies, strict=True):
        np.testing.assert_allclose(
            reply.model_logprobs, teacher_forced_logprobs(policy.model, prompt, reply.ids), atol=1e-4
        )
    assert_replies_match(replies, sample_all(HFPolicy(policy.model), *REQUESTS))
    return replies
