"""Families of models in vLLM, weights that are handed over, and engines that die."""

import asyncio

import numpy as np
import pytest
import torch

from rl.policy.batching import EngineDead
from rl.policy.hf import HFPolicy
from tests.support.models import shaken, teacher_forced
from tests.support.sampling import PROMPT, assert_same, params, prompt_of, sampled
from tests.support.vllm import assert_alike, needs_vllm, started, tall

pytestmark = needs_vllm
FAMILIES = {
    "qwen2": {"tie_word_embeddings": True},
    "qwen3": {"tie_word_embeddings": True},
    "llama": {},
    "gemma3_text": {"query_pre_attn_scalar": 32},
}


@pytest.mark.parametrize("kind", FAMILIES)
def test_a_familys_tokens_are_those_of_the_hf_engine_before_and_after_new_weights(kind):
    net = tall(kind, **FAMILIES[kind])
    asked = [
        *((prompt_of(n), params(n, 16, temperature=0.0, stop=())) for n in range(4)),
        *((prompt_of(n), params(n, 16, stop=())) for n in range(4)),
    ]
    with started(net, slots=8) as policy:
        first = sampled(policy, *asked)
        assert_alike(first, sampled(HFPolicy(net), *asked))
        shaken(net, 5, 0.03)
        policy.refresh()
        assert policy.gap < 1e-4
        second = sampled(policy, *asked)
    moved = [abs(one.model_logprobs[0] - two.model_logprobs[0]) for one, two in zip(first, second, strict=True)]
    assert max(moved) > 1e-3
    assert_alike(second, sampled(HFPolicy(net), *asked))
    for (prompt, _), reply in zip(asked, second, strict=True):
        np.testing.assert_allclose(reply.model_logprobs, teacher_forced(net, prompt, reply.ids), atol=1e-4)


def test_an_output_matrix_that_stayed_behind_is_found_out(monkeypatch):
    """Parameters, like checkpoints, name a tied matrix once; vLLM packs a copy of it for the output."""
    net = tall("qwen3", tie_word_embeddings=True)
    with started(net, slots=2) as policy:
        shaken(net, 1, 0.01)
        monkeypatch.setattr("rl.policy.vllm.weight_sync.weights", lambda model: model.named_parameters())
        with pytest.raises(EngineDead, match=r"disagree by .* nats"):
            policy.refresh()
        with pytest.raises(EngineDead):
            sampled(policy, (PROMPT, params()))


def test_too_small_a_cache_changes_no_token():
    net = tall()
    asked = [((PROMPT * 6)[n:], params(n, 40, stop=())) for n in range(4)]  # three blocks each, and six are there
    with started(net, slots=4, cache_gib=1e-6) as policy:
        assert_alike(sampled(policy, *asked), sampled(HFPolicy(net), *asked))


def test_weights_that_are_not_finite_are_a_fault_and_not_a_token():
    net = tall()
    with started(net, slots=2) as policy:
        with torch.no_grad():
            net.lm_head.weight.fill_(float("nan"))
        with pytest.raises(EngineDead, match="not finite"):
            policy.refresh()


def test_when_the_engine_dies_whoever_waits_is_told_or_kept_waiting():
    net = tall()
    with started(net, slots=2) as policy:
        compute, steps, told = policy.engine.step, iter(range(100)), []

        def failing():
            if next(steps) == 5:
                raise MemoryError("none left")
            return compute()

        policy.engine.step = failing
        policy.on_death = lambda: told.append(policy.partial("a"))

        async def kept_waiting():
            asked = asyncio.create_task(policy.sample(PROMPT, params(1, 20, stop=()), session="a"))
            while not told:
                await asyncio.sleep(0)
            received = policy.partial("a")
            late = asyncio.create_task(policy.sample(PROMPT, params(2), session="b"))
            for _ in range(20):
                await asyncio.sleep(0)
            assert not asked.done() and not late.done()
            asked.cancel()
            late.cancel()
            return received

        received = asyncio.run(kept_waiting())
        assert len(received.ids) == 5
        policy.on_death = None
        with pytest.raises(EngineDead, match="none left"):
            sampled(policy, (PROMPT, params()))
    again = sampled(HFPolicy(net), (PROMPT, params(1, 20, stop=())), received=received)
    assert_same(again, sampled(HFPolicy(net), (PROMPT, params(1, 20, stop=()))))


def test_heads_too_small_for_vllm_are_refused_in_one_line():
    with pytest.raises(ValueError, match=r"heads of size 16.*--engine hf"), started(tall(head_dim=16)):
        pass
