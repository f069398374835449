"""Rows of which no two share a prefix, and the gradients of norms and gates that are written out for a CPU."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from rl.learner import attention
from rl.learner.batch import trajectory_rows
from rl.learner.learner import Learner
from rl.learner.own_forward import abilities
from rl.learner.packing import Packing
from rl.methods.parts import baseline, ratio, reduce, surrogate
from rl.methods.recipe import Recipe
from rl.policy.decoder import gated, gated_silu, is_supported, rms_norm
from rl.policy.projection import Projection, apply_two
from tests.support.models import VOCAB, model
from tests.support.play import random_trajectory

PLAIN = Recipe(baseline=baseline.none, ratio=ratio.on_policy, surrogate=surrogate.linear, reduce=reduce.token_mean)
FAMILIES = {
    "llama": {},
    "qwen3": {},
    "mistral": {"sliding_window": 5},
    "gemma2": {"sliding_window": 5, "attn_logit_softcapping": 2.0, "query_pre_attn_scalar": 8},
    "gpt_oss": {"sliding_window": 5, "num_local_experts": 2, "num_experts_per_tok": 2},
}


def records(count=5):
    """Trajectories that begin with contexts of their own, of different lengths."""
    rng = np.random.default_rng(4)
    firsts = [tuple(rng.integers(VOCAB, size=size).tolist()) for size in (6, 2, 9, 1, 6)]
    return [random_trajectory(rng, first, turns=int(rng.integers(1, 4))) for first in firsts[:count]]


def rows_of(trajectories):
    return [
        row
        for number, one in enumerate(trajectories)
        for row in trajectory_rows(one, np.ones(one.num_sampled), number=number, group=number)
    ]


@pytest.mark.parametrize("kind", FAMILIES)
def test_each_sequence_is_one_call_of_attention_with_the_gradient_of_whole_histories(kind, monkeypatch):
    net = model(kind, **FAMILIES[kind])
    rows = rows_of(records())
    assert Packing(rows, torch.device("cpu")).unshared is not None
    assert is_supported(net) or abilities(net).packs  # by a trial that shares prefixes
    monkeypatch.setattr(Packing, "row_mask", lambda *args: pytest.fail("a prefix apart from its row"))
    Learner(net, lr=0.0, max_grad_norm=1e9).update(rows, PLAIN)
    actual = {name: weight.grad.clone() for name, weight in net.named_parameters() if weight.grad is not None}
    net.zero_grad()
    logprobs = []
    for one in records():
        for history in one.sequences():
            logits = net(input_ids=torch.tensor([history.ids]), use_cache=False).logits[0].float().log_softmax(-1)
            at = np.flatnonzero(history.sampled)
            logprobs.append(logits[at - 1, torch.tensor(history.ids)[at]])
    (-torch.cat(logprobs).mean()).backward()
    expected = {name: weight.grad for name, weight in net.named_parameters() if weight.grad is not None}
    assert actual.keys() == expected.keys()
    for name, gradient in expected.items():
        torch.testing.assert_close(actual[name], gradient, atol=2e-6, rtol=2e-5, msg=name)


def test_one_shared_prefix_keeps_prefixes_apart():
    first, *others = records()
    rows = rows_of([first, first, *others])
    assert Packing(rows, torch.device("cpu")).unshared is None


@pytest.mark.parametrize("window", [None, 3])
def test_unshared_rows_attend_as_they_do_with_prefixes_apart(window):
    packing = Packing(rows_of(records()), torch.device("cpu"))
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(len(packing.ids), heads, 8, generator=generator) for heads in (4, 2, 2))
    whole = attention.attend(packing, q, k, v, window=window)
    packing.unshared = None
    torch.testing.assert_close(whole, attention.attend(packing, q, k, v, window=window))


@pytest.mark.parametrize("shape", [(7, 32), (5, 3, 8)])
def test_the_gradient_of_a_norm_is_that_of_autograd(shape):
    generator = torch.Generator().manual_seed(1)
    x, weight, along = (torch.randn(size, generator=generator) for size in (shape, shape[-1:], shape))
    results = []
    for norm in (rms_norm, lambda x, weight, eps: F.rms_norm(x, weight.shape, weight, eps)):
        leaves = [one.clone().requires_grad_() for one in (x, weight)]
        y = norm(*leaves, 1e-5)
        results.append((y.detach(), *torch.autograd.grad(y, leaves, along)))
    assert torch.equal(results[0][0], results[1][0])
    for actual, expected in zip(*results, strict=True):
        torch.testing.assert_close(actual, expected, atol=1e-6, rtol=1e-5)


def test_the_gradient_of_a_gate_has_the_bits_of_autograds():
    generator = torch.Generator().manual_seed(2)
    x, weight, along = (torch.randn(size, generator=generator) for size in ((7, 16), (48, 16), (7, 24)))
    results = []
    for gate in (gated, lambda projections, x: gated_silu(*apply_two(projections, x))):
        leaves = [one.clone().requires_grad_() for one in (x, weight)]
        y = gate([Projection(leaves[1], None)], leaves[0])
        results.append((y.detach(), *torch.autograd.grad(y, leaves, along)))
    for actual, expected in zip(*results, strict=True):
        assert torch.equal(actual, expected)
