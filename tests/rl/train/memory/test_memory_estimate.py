"""The estimate of memory against the bytes of real tensors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from rl.learner.learner import Learner
from rl.methods.inputs import Row
from rl.methods.recipes.grpo import recipe as grpo
from rl.policy import lora
from rl.policy.hf import HFPolicy
from rl.train.memory import estimate as memory_estimate
from rl.train.memory.estimate import estimate
from rl.train.memory.report import advice, savings
from rl.train.memory.workload import Workload
from tests.support.memory import peak_bytes, retained_bytes
from tests.support.models import model

FAMILIES = ["qwen2", "qwen3", "llama", "gemma3_text"]
FACTOR = 1.25  # between what blocks keep and its estimate, either way
SHAPES = {
    "square": {"num_hidden_layers": 4, "hidden_size": 64, "intermediate_size": 160, "head_dim": 16},
    "many query heads": {"num_hidden_layers": 2, "hidden_size": 64, "intermediate_size": 160, "head_dim": 64},
    "a broad MLP": {"num_hidden_layers": 3, "hidden_size": 48, "intermediate_size": 512, "head_dim": 16},
}


def batch(groups=2, size=4, prompt=24, own=40):
    """Return rows of the greatest length, which the estimate assumes."""
    rng, rows = np.random.default_rng(0), []
    for group in range(groups):
        prefix = tuple(rng.integers(40, size=prompt).tolist())
        for _ in range(size):
            numbers = np.full(own, -3.0, np.float32), rng.normal(size=own).astype(np.float32)
            turn, every = np.zeros(own, np.int64), np.ones(own, bool)
            rows.append(
                Row(prefix, rng.integers(40, size=own), every, *numbers, turn, {}, trajectory=len(rows), group=group)
            )
    return rows


def work_of(rows, net, **more):
    """Return the workload of an update on these rows."""
    size = len(rows) // len({row.prefix for row in rows})
    prompt, own = len(rows[0].prefix), rows[0].size
    tokens = len(rows) * own + len(rows) // size * prompt
    return Workload(tokens, prompt + own, prompt, size, **more)


def make_model(kind, rank=0, targets=lora.ALL, **changes):
    net = model(kind, **changes)
    if rank:
        lora.attach(net, rank, alpha=8, targets=targets)
    return net


def bytes_of(tensors):
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors if tensor is not None)


def within(measured_bytes, expected, factor=FACTOR):
    assert expected / factor <= measured_bytes <= expected * factor, (
        measured_bytes,
        expected,
        measured_bytes / expected,
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("rank", [0, 4])
@pytest.mark.parametrize("kind", [*FAMILIES, "gpt2", "mixtral"])
def test_weights_gradients_and_moments_are_exact(kind, rank, dtype):
    net = make_model(kind, rank).to(dtype)
    result = estimate(net, work_of(batch(), net, rank=rank, itemsize=dtype.itemsize))
    assert result.weights == bytes_of(net.parameters())
    learner = Learner(net, lr=1e-3)
    learner.update(batch(), grpo)
    optimizer = learner.optimizer
    assert result.gradients == bytes_of(weight.grad for weight in [*net.parameters(), *(c for _, c in optimizer.pairs)])
    moments = sum(bytes_of([state["exp_avg"], state["exp_avg_sq"]]) for state in optimizer.state.values())
    assert result.optimizer == moments + bytes_of(copy for _, copy in optimizer.pairs)
    assert memory_estimate.training_state_bytes(net) == result.gradients + result.optimizer


@pytest.mark.parametrize("kind", FAMILIES)
def test_it_needs_no_weights_and_foresees_adapters_that_are_not_there_yet(kind):
    net = make_model(kind, 4)
    with torch.device("meta"):
        empty = AutoModelForCausalLM.from_config(model(kind).config)
    assert next(empty.parameters()).is_meta
    for more in ({"slots": 3}, {"slots": 3, "recompute": True, "reference": True}):
        work = work_of(batch(), net, rank=4, **more)
        assert estimate(empty, work) == estimate(net, work)
    some = make_model(kind)
    lora.attach(some, 4, alpha=8, targets="q_proj,down_proj")
    work = work_of(batch(), net, rank=4, targets="q_proj, down_proj")
    assert estimate(empty, work) == estimate(some, work)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("rank", [0, 4])
@pytest.mark.parametrize("kind", FAMILIES)
def test_what_blocks_keep_is_within_the_factor(kind, rank, recompute, shape, dtype):
    net, rows = make_model(kind, rank, **SHAPES[shape]).to(dtype), batch()
    learner = Learner(net, lr=0.0, recompute=recompute)
    measured_bytes = retained_bytes(lambda: learner.forward(net, rows)["logp"].sum())
    logits = len(rows) * rows[0].size * net.config.vocab_size * 4
    work = work_of(rows, net, rank=rank, recompute=recompute, itemsize=dtype.itemsize)
    within(memory_estimate.activation_bytes(net, work), measured_bytes - logits)


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("kind", FAMILIES)
def test_the_highest_point_of_an_update_is_within_the_factor(kind, recompute):
    net, rows = make_model(kind, vocab_size=300, **SHAPES["square"]), batch(4)
    work = work_of(batch(2), net, recompute=recompute)  # two micro-batches
    result = estimate(net, work)
    learner = Learner(net, lr=1e-3, recompute=recompute, microbatch_tokens=work.microbatch_tokens)
    learner.update(rows, grpo)  # then the moments are there
    net.zero_grad()
    measured_bytes = peak_bytes(lambda: learner.update(rows, grpo))
    within(result.gradients + result.activations + result.logits, measured_bytes, 1.5)


@pytest.mark.parametrize("targets", [lora.ALL, "q_proj, down_proj", "up_proj"])
@pytest.mark.parametrize(("kind", "rank"), [("qwen2", 0), ("qwen3", 4), ("gemma3_text", 0), ("gemma3_text", 4)])
def test_the_samplers_copy_and_its_full_cache_are_exact(kind, rank, targets):
    net = make_model(kind, rank, targets)
    policy = HFPolicy(net, slots=3, context=64)
    result = estimate(net, Workload(64, 64, slots=3, rank=rank))
    forward = policy.forward
    mine = {weight.untyped_storage()._cdata for weight in net.parameters()}
    own = _tensors(forward.weights if kind != "gemma3_text" else tuple(forward.model.parameters()))
    tensors = {tensor.untyped_storage()._cdata: tensor for tensor in own}
    assert result.sampler == bytes_of(tensor for key, tensor in tensors.items() if key not in mine)
    policy.cache.reserve(3, 64)
    assert result.cache == bytes_of([policy.cache.kv])


@pytest.mark.parametrize("kind", ["qwen2", "gemma3_text"])
def test_what_has_no_adapter_is_not_copied_for_the_sampler_of_a_wide_model(kind, monkeypatch):
    monkeypatch.setattr("rl.policy.decoder.WIDE_HIDDEN_SIZE", 16)
    net = make_model(kind, 4, "q_proj")
    forward = HFPolicy(net, slots=3, context=64).forward
    tensors = _tensors(forward.weights if kind == "qwen2" else tuple(forward.model.parameters()))
    mine = {weight.data_ptr() for weight in net.parameters()}
    own = sum(lora.is_adapter_weight(name) for name, _ in net.named_parameters())
    assert sum(tensor.data_ptr() not in mine for tensor in tensors) == own == 2 * net.config.num_hidden_layers


@pytest.mark.parametrize("kind", ["qwen2", "gemma3_text"])
def test_a_model_that_is_not_trained_is_sampled_from_without_a_copy(kind, monkeypatch):
    monkeypatch.setattr("rl.policy.decoder.WIDE_HIDDEN_SIZE", 16)
    net = make_model(kind).requires_grad_(False)
    forward = HFPolicy(net, slots=3, context=64).forward
    tensors = _tensors(forward.weights if kind == "qwen2" else tuple(forward.model.parameters()))
    mine = {weight.data_ptr() for weight in net.parameters()}
    assert len(tensors) > 20 and all(tensor.data_ptr() in mine for tensor in tensors)


def _tensors(part):
    if isinstance(part, torch.Tensor):
        return [part]
    return [tensor for one in part for tensor in _tensors(one)] if isinstance(part, tuple) else []


def test_every_advice_leads_to_the_total_that_it_names():
    net = model(vocab_size=50_000, num_hidden_layers=8)
    work = Workload(4096, 512, 64, 8, slots=16, reference=True)
    ways = dict((flag, total) for flag, total, _ in savings(net, work))
    now = estimate(net, work).total
    assert set(ways) == {
        "--checkpoint-activations",
        "--microbatch-tokens 2048",
        "--lora 16",
    }  # logits are float32 anyway
    assert ways["--checkpoint-activations"] == estimate(net, replace(work, recompute=True)).total < now
    assert ways["--microbatch-tokens 2048"] == estimate(net, replace(work, microbatch_tokens=2048)).total < now
    assert ways["--lora 16"] == estimate(net, replace(work, rank=16)).total < now
    result = advice(net, work)
    assert result.startswith(
        f"--checkpoint-activations ({memory_estimate.size_text(ways['--checkpoint-activations'])}), "
    )
    later = advice(net, work, is_resumed=True)
    assert later.index("--microbatch-tokens 2048") < later.index("; in a new run --lora 16")
    few = model(num_hidden_layers=40)
    assert "--dtype bfloat16" in {flag for flag, *_ in savings(few, work)}
    least = replace(work, recompute=True, microbatch_tokens=1, rank=16, itemsize=2)
    assert savings(net, least) == []
    assert advice(net, least) == "lower --max-tokens, or take a smaller model"
    assert advice(net, least, is_resumed=True) == "in a new run lower --max-tokens, or take a smaller model"


def test_sizes_are_told_in_units_that_fit():
    assert [memory_estimate.size_text(size) for size in (2**20, 3 * 2**29, 90 * 2**20)] == [
        "1.0 MiB",
        "1.5 GiB",
        "90.0 MiB",
    ]
