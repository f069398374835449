"""The hf engine on a GPU samples what it samples on the CPU."""

import pytest
import torch

from rl.policy.hf import HFPolicy
from tests.support.gpu import GPU, in_whole_float32, needs_gpu  # noqa: F401
from tests.support.models import OTHER_FAMILIES, PACKED_FAMILIES, model, perturb_weights
from tests.support.sampling import make_prompt, params, sample_all
from tests.support.vllm import assert_replies_match

pytestmark = [*needs_gpu, pytest.mark.usefixtures("in_whole_float32")]


@pytest.mark.parametrize("kind", [*PACKED_FAMILIES, *OTHER_FAMILIES])
def test_the_tokens_are_the_same(kind):
    requests = [(make_prompt(n), params(n, 12, temperature=0.7 + 0.3 * (n % 2))) for n in range(12)]
    mine, other = HFPolicy(model(kind).to(GPU), slots=8), HFPolicy(model(kind), slots=8)
    assert_replies_match(sample_all(mine, *requests), sample_all(other, *requests))
    for policy in (mine, other):
        with torch.no_grad():
            changed = model(kind)
            perturb_weights(changed, 1)
            for weight, new in zip(policy.model.parameters(), changed.parameters(), strict=True):
                weight.copy_(new)
        policy.sync_weights()
    assert_replies_match(sample_all(mine, *requests), sample_all(other, *requests))
