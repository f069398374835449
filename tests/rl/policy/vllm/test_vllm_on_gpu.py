"""vLLM on a GPU: its own sampler with CUDA graphs, scheduling ahead, sleep, adapters, and a process of its own."""

import gc

import numpy as np
import pytest
import torch

from rl.policy import lora
from rl.policy.vllm.weight_sync import TOLERANCE
from tests.support.adapters import model_with_adapters
from tests.support.gpu import GPU, needs_gpu
from tests.support.models import model, perturb_weights, teacher_forced_logprobs
from tests.support.runs import flags, metrics, train_run
from tests.support.sampling import make_prompt, params, sample_all
from tests.support.vllm import needs_vllm, open_vllm

pytestmark = [*needs_vllm, *needs_gpu]
TALL = {"hidden_size": 256, "intermediate_size": 512, "head_dim": 64, "initializer_range": 0.1}
ROUNDING = 0.3  # of a log-probability in bfloat16, in nats; models with other weights differ by several
WAYS = {"one process": {}, "a process of its own": {"separate_process": True}}


@pytest.fixture(autouse=True)
def little_garbage():
    gc.collect()


def half_of_the_gpu():
    return torch.cuda.mem_get_info()[0] // 2  # others may compute on it


def net(kind="qwen2"):
    return model(kind, **TALL).to(GPU, torch.bfloat16)


def gaps(policy, replies, requests):
    """The differences to the model's own log-probabilities, in nats."""
    for (prompt, _), reply in zip(requests, replies, strict=True):
        mine, expected = reply.model_logprobs, teacher_forced_logprobs(policy.model, prompt, reply.ids)
        yield float(np.abs(np.asarray(mine) - np.asarray(expected)).max())


@pytest.mark.parametrize("way", WAYS)
def test_replies_are_those_of_the_model_before_and_after_an_update_and_a_rest(way):
    requests = [(make_prompt(n), params(n, 24)) for n in range(40)]
    with open_vllm(net(), slots=16, context=128, reserve_bytes=half_of_the_gpu(), **WAYS[way]) as policy:
        assert "its own sampler" in policy.description
        first = sample_all(policy, *requests)
        assert max(gaps(policy, first, requests)) < ROUNDING
        alone = [sample_all(policy, request)[0] for request in requests[:8]]
        assert sum(one.ids == other.ids for one, other in zip(alone, first, strict=False)) >= 6  # up to rounding
        perturb_weights_on_gpu(policy.model, 1)
        policy.sync_weights()
        assert policy.logprob_gap < TOLERANCE[torch.bfloat16]
        second = sample_all(policy, *requests)
        assert max(gaps(policy, second, requests)) < ROUNDING
        assert sum(one.ids == other.ids for one, other in zip(first, second, strict=True)) < len(requests) / 2
        for seed in (2, 3):
            before = torch.cuda.mem_get_info()[0]
            policy.pause()
            assert torch.cuda.mem_get_info()[0] > before + 2**30
            take_memory_and_leave_it_to_torch()
            perturb_weights_on_gpu(policy.model, seed)
            policy.sync_weights()
            assert max(gaps(policy, sample_all(policy, *requests), requests)) < ROUNDING


def take_memory_and_leave_it_to_torch():
    """Do as an update does: more memory than the engine leaves is in use for a moment, and torch keeps it."""
    free = torch.cuda.mem_get_info()[0]
    activations = torch.empty(free * 6 // 10, dtype=torch.uint8, device=GPU)
    del activations
    assert torch.cuda.mem_get_info()[0] < free // 2


def perturb_weights_on_gpu(trained, seed):
    changed = model(trained.config.model_type, **TALL)
    perturb_weights(changed, seed, 0.05)
    with torch.no_grad():
        for weight, new in zip(trained.parameters(), changed.parameters(), strict=True):
            weight.copy_(new)


def change_adapters(trained, seed):
    noise = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in trained.named_parameters():
            if lora.is_adapter_weight(name):
                weight += 0.05 * torch.randn(weight.shape, generator=noise).to(weight)


@pytest.mark.parametrize("changes", [{"temperature": 0.7, "top_p": 0.9}, {"temperature": 1.4, "top_k": 5}], ids=str)
def test_keyed_draws_are_those_of_the_hf_engine(changes):
    from rl.policy.hf import HFPolicy

    requests = [(make_prompt(n), params(n, 16, **changes)) for n in range(24)]
    trained = net()
    with open_vllm(trained, slots=16, context=128, draws="keyed", reserve_bytes=half_of_the_gpu()) as policy:
        mine = sample_all(policy, *requests)
    other = sample_all(HFPolicy(trained, slots=16), *requests)
    assert sum(one.ids == two.ids for one, two in zip(mine, other, strict=True)) >= len(requests) / 4  # bfloat16


def test_adapters_are_replaced_beside_frozen_weights():
    pytest.importorskip("peft")
    trained = model_with_adapters("qwen2", **TALL).to(GPU, torch.bfloat16)
    requests = [(make_prompt(n), params(n, 16)) for n in range(12)]
    with open_vllm(trained, slots=16, context=128, reserve_bytes=half_of_the_gpu()) as policy:
        for seed in range(3):
            change_adapters(trained, seed)
            policy.sync_weights()
            assert max(gaps(policy, sample_all(policy, *requests), requests)) < 2 * ROUNDING
            policy.pause()


RUNS = [(), ("--lag", "2", "--overlap"), ("--lora", "4")]


@pytest.mark.parametrize("more", RUNS, ids=" ".join)
def test_a_run_samples_with_vllm_what_it_trains(tmp_path, more):
    out = train_run(
        *flags("Talk", *more, updates=3, device=GPU, engine="vllm", model=folder(tmp_path)), out=tmp_path / "run"
    )
    for line in metrics(out):
        assert line["tokens/trained"] > 0 and not line["episodes/errored"]
        assert "--lag" in more or line["logp_gap/max"] < 0.3


def folder(tmp_path):
    """A model of two layers with heads that FlashAttention takes, and the bundled tokenizer."""
    from rl.policy import tiny
    from rl.policy.pretrained import save_pretrained

    save_pretrained(*tiny.create(1, hidden=128, layers=2, heads=2, intermediate=256), tmp_path / "model")
    return str(tmp_path / "model")
