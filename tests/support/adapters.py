"""Adapters for tests of engines: on toy models, changed as updates would, and what an engine should say of them."""

import numpy as np
import torch

from rl.policy import lora
from rl.policy.hf import HFPolicy
from tests.support.models import teacher_forced
from tests.support.sampling import params, prompt_of, sampled
from tests.support.vllm import assert_alike, tall

ASKED = [(prompt_of(n), params(n, 16, temperature=0.5 + 0.5 * (n % 3), stop=())) for n in range(8)]


def adapted(kind="llama", rank=3, targets=lora.ALL, **changes):
    """A toy model that vLLM takes, with adapters that do nothing yet."""
    net = tall(kind, **changes)
    lora.attach(net, rank, alpha=2 * rank, targets=targets)
    return net


def updated(net, seed, size=0.05):
    """Change every adapter in place."""
    noise = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in net.named_parameters():
            if lora.of_adapters(name):
                weight += size * torch.randn(weight.shape, generator=noise)


def assert_the_trainers(policy):
    """Replies are those of the hf engine, and their log-probabilities those of the trainer's forward; the replies."""
    found = sampled(policy, *ASKED)
    for (prompt, _), reply in zip(ASKED, found, strict=True):
        np.testing.assert_allclose(reply.model_logprobs, teacher_forced(policy.model, prompt, reply.ids), atol=1e-4)
    assert_alike(found, sampled(HFPolicy(policy.model), *ASKED))
    return found
