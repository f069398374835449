"""vLLM with several model families, weight updates, and engines that fail."""

import asyncio

import numpy as np
import pytest
import torch

from rl.policy.engine import EngineDead
from rl.policy.hf import HFPolicy
from tests.support.models import next_logits, perturb_weights, teacher_forced_logprobs
from tests.support.sampling import PROMPT, assert_same_replies, make_prompt, params, sample_all
from tests.support.vllm import assert_replies_match, needs_vllm, open_vllm, vllm_model

pytestmark = needs_vllm
FAMILIES = {
    "qwen2": {"tie_word_embeddings": True},
    "qwen3": {"tie_word_embeddings": True},
    "llama": {},
    "gemma2": {"query_pre_attn_scalar": 32, "attn_logit_softcapping": None},  # vLLM has no output matrix of its own
    "gemma3_text": {"query_pre_attn_scalar": 32},
    "smollm3": {"tie_word_embeddings": True},  # vLLM has no code of its own
}


@pytest.mark.parametrize("kind", FAMILIES)
def test_a_familys_tokens_are_those_of_the_hf_engine_before_and_after_new_weights(kind):
    net = vllm_model(kind, **FAMILIES[kind])
    requests = [
        *((make_prompt(n), params(n, 16, temperature=0.0, stop=())) for n in range(4)),
        *((make_prompt(n), params(n, 16, stop=())) for n in range(4)),
    ]
    with open_vllm(net, slots=8) as policy:
        first = sample_all(policy, *requests)
        assert_replies_match(first, sample_all(HFPolicy(net), *requests))
        perturb_weights(net, 5, 0.03)
        policy.sync_weights()
        assert policy.logprob_gap < 1e-4
        second = sample_all(policy, *requests)
    distances = [abs(one.model_logprobs[0] - two.model_logprobs[0]) for one, two in zip(first, second, strict=True)]
    assert max(distances) > 1e-3
    assert_replies_match(second, sample_all(HFPolicy(net), *requests))
    for (prompt, _), reply in zip(requests, second, strict=True):
        np.testing.assert_allclose(reply.model_logprobs, teacher_forced_logprobs(net, prompt, reply.ids), atol=1e-4)


def test_a_family_that_vllm_computes_by_transformers_code_is_built_and_called_by_it_alone():
    net = vllm_model("smollm3")
    before = next_logits(net, PROMPT)
    calls = []
    net.model.register_forward_hook(lambda *_: calls.append(1))  # vLLM's own way to call the class passes hooks by
    with open_vllm(net, slots=2):
        calls.clear()
        assert torch.equal(next_logits(net, PROMPT), before) and calls
        assert torch.equal(next_logits(vllm_model("smollm3"), PROMPT), before)
    with open_vllm(vllm_model("smollm3", 1), slots=2) as policy:  # the class is vLLM's too, as before
        assert policy.logprob_gap < 1e-4


def test_replies_beyond_the_window_of_attention_are_those_of_the_models_forward():
    net = vllm_model("gemma3_text", query_pre_attn_scalar=32, sliding_window=32)
    prompts = [(PROMPT * 20)[n : n + 60] for n in range(3)]
    with open_vllm(net, slots=4) as policy:
        assert policy.context > 100
        replies = sample_all(policy, *((prompt, params(n, 24, stop=())) for n, prompt in enumerate(prompts)))
    for prompt, reply in zip(prompts, replies, strict=True):
        np.testing.assert_allclose(reply.model_logprobs, teacher_forced_logprobs(net, prompt, reply.ids), atol=1e-4)


def test_an_output_matrix_that_stayed_behind_is_found_out(monkeypatch):
    """Parameters, like checkpoints, name a tied matrix once; vLLM packs a copy of it for the output."""
    net = vllm_model("qwen3", tie_word_embeddings=True)
    with open_vllm(net, slots=2) as policy:
        perturb_weights(net, 1, 0.01)
        monkeypatch.setattr("rl.policy.vllm.weight_sync.named_weights", lambda model: model.named_parameters())
        with pytest.raises(EngineDead, match=r"disagree by .* nats"):
            policy.sync_weights()
        with pytest.raises(EngineDead):
            sample_all(policy, (PROMPT, params()))


def test_too_small_a_cache_changes_no_token():
    net = vllm_model()
    requests = [((PROMPT * 6)[n:], params(n, 40, stop=())) for n in range(4)]  # three blocks each, and six are there
    with open_vllm(net, slots=4, cache_gib=1e-6) as policy:
        assert_replies_match(sample_all(policy, *requests), sample_all(HFPolicy(net), *requests))


def test_weights_that_are_not_finite_are_a_fault_and_not_a_token():
    net = vllm_model()
    with open_vllm(net, slots=2) as policy:
        with torch.no_grad():
            net.lm_head.weight.fill_(float("nan"))
        with pytest.raises(EngineDead, match="not finite"):
            policy.sync_weights()


def test_when_the_engine_dies_whoever_waits_is_told_or_kept_waiting():
    net = vllm_model()
    with open_vllm(net, slots=2) as policy:
        compute, steps, partials = policy.engine.step, iter(range(100)), []

        def failing():
            if next(steps) == 5:
                raise MemoryError("none left")
            return compute()

        policy.engine.step = failing
        policy.on_failure = lambda: partials.append(policy.partial("a"))

        async def wait():
            task = asyncio.create_task(policy.sample(PROMPT, params(1, 20, stop=()), session="a"))
            while not partials:
                await asyncio.sleep(0)
            partial = policy.partial("a")
            late = asyncio.create_task(policy.sample(PROMPT, params(2), session="b"))
            for _ in range(20):
                await asyncio.sleep(0)
            assert not task.done() and not late.done()
            task.cancel()
            late.cancel()
            return partial

        partial = asyncio.run(wait())
        assert len(partial.ids) == 5
        policy.on_failure = None
        with pytest.raises(EngineDead, match="none left"):
            sample_all(policy, (PROMPT, params()))
    again = sample_all(HFPolicy(net), (PROMPT, params(1, 20, stop=())), resume_from=partial)
    assert_same_replies(again, sample_all(HFPolicy(net), (PROMPT, params(1, 20, stop=()))))


def test_heads_too_small_for_vllm_are_refused_in_one_line():
    with pytest.raises(ValueError, match=r"heads of size 16.*--engine hf"), open_vllm(vllm_model(head_dim=16)):
        pass
