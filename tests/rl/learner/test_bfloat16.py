"""Training models in bfloat16: half the memory, and small updates are not lost."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from rl.evaluate import __main__ as evaluate
from rl.learner.adamw import Float32AdamW
from rl.learner.forward import score_tokens
from rl.learner.learner import Learner
from rl.methods.recipes.grpo import recipe as grpo
from rl.policy import lora
from rl.policy.hf import HFPolicy
from rl.policy.pretrained import load_pretrained, save_pretrained
from rl.train.storage.state_file import read_state
from tests.rl.learner.test_packing import PLAIN
from tests.support.models import model
from tests.support.play import (
    assert_learns,
    flat,
    random_groups,
    rows,
    sample_groups,
    sampler_logprobs,
    saved_and_loaded,
    trajectories,
)
from tests.support.runs import Child, assert_same_run, flags, train, train_run, weights

FAMILIES = ["qwen2", "qwen3", "llama", "gemma3_text"]
HALF = torch.bfloat16


def half(kind="llama", rank=0, seed=0):
    """A toy model as loaded from a bfloat16 checkpoint: weights are cast, rotary tables are not."""
    net = model(kind, seed, initializer_range=0.1)
    for weight in net.parameters():
        weight.data = weight.data.to(HALF)
    if rank:
        lora.attach(net, rank, alpha=8)
    return net


def test_an_update_of_a_millionth_is_not_lost():
    """The numbers next to 0.02 in bfloat16 are 1.2e-4 away."""
    weight, plain_weight = (torch.nn.Parameter(torch.full((4,), 0.02, dtype=HALF)) for _ in range(2))
    optimizer, plain_optimizer = (
        Float32AdamW([weight], lr=1e-6, weight_decay=0.0),
        torch.optim.AdamW([plain_weight], lr=1e-6, weight_decay=0.0),
    )
    first, steps = weight.detach().clone(), 200
    for step in range(steps):
        with optimizer.accumulate_in_masters():
            weight.sum().backward()
        plain_weight.grad = torch.ones_like(plain_weight)
        optimizer.step()
        plain_optimizer.step()
        optimizer.zero_grad()
        if step == 0:
            assert torch.equal(weight, first)
            np.testing.assert_allclose((first.float() - optimizer.masters[0]).numpy(), 1e-6, rtol=1e-2)
    np.testing.assert_allclose((first.float() - optimizer.masters[0]).numpy(), steps * 1e-6, rtol=1e-2)
    assert (first - weight > 1e-4).all()
    assert torch.equal(plain_weight, first)


@pytest.mark.parametrize("rank", [0, 4])
@pytest.mark.parametrize("kind", FAMILIES)
def test_small_steps_of_a_learner_are_in_its_copies_first_and_everything_it_says_is_in_float32(kind, rank):
    net = half(kind, rank)
    learner = Learner(net, lr=1e-6, critic=True)
    before = [copy.clone() for copy in learner.optimizer.masters]
    scores = score_tokens(net, rows(PLAIN), learner.device)
    assert (scores.hidden.dtype, scores.logp.dtype, scores.entropy.dtype) == (HALF, torch.float32, torch.float32)
    for _ in range(3):
        learner.update(rows(grpo), grpo)
    assert all(copy.dtype == torch.float32 for copy in learner.optimizer.masters)
    pairs = zip(before, learner.optimizer.masters, strict=True)
    distances = torch.cat([(new - old).abs().flatten() for old, new in pairs])
    assert 1e-6 < float(distances.max()) < 4e-6 and float((distances > 1e-7).float().mean()) > 0.9
    assert all(torch.equal(weight, copy.to(HALF)) for weight, copy in learner.optimizer.pairs)
    assert all(weight.grad is None for weight in net.parameters())


@pytest.mark.parametrize("rank", [0, 4])
@pytest.mark.parametrize("kind", FAMILIES)
def test_its_gradient_points_where_that_of_float32_does(kind, rank):
    net, exact = half(kind, rank), half(kind, rank)
    for weight in exact.parameters():
        weight.data = weight.data.float()
    gradients = []
    for one in (net, exact):
        learner = Learner(one, lr=0.0, max_grad_norm=1e9)
        learner.update(rows(PLAIN), PLAIN)
        gradients.append(torch.cat([copy.grad.flatten() for copy in learner.optimizer.masters]))
    assert float(torch.nn.functional.cosine_similarity(*gradients, dim=0)) > 0.995
    assert float(gradients[0].norm() / gradients[1].norm()) == pytest.approx(1, abs=0.05)


def test_gradients_of_micro_batches_add_up_in_float32():
    weight = torch.nn.Parameter(torch.ones(3, dtype=HALF))
    optimizer = Float32AdamW([weight], lr=0.0, weight_decay=0.0)
    with optimizer.accumulate_in_masters():
        for _ in range(1000):
            (weight * 1e-3).sum().backward()
    single = torch.tensor(1e-3, dtype=HALF).float()
    torch.testing.assert_close(optimizer.masters[0].grad, torch.full((3,), 1000 * single), rtol=1e-5, atol=0)
    (weight * 1.0).sum().backward()
    assert weight.grad is not None  # outside nothing is collected


def test_weights_in_float64_lose_no_digit_to_a_copy():
    weight = torch.nn.Parameter(torch.ones(3, dtype=torch.float64))
    optimizer = Float32AdamW([weight], lr=1e-12, weight_decay=0.0)
    assert optimizer.masters[0] is weight and not optimizer.pairs
    with optimizer.accumulate_in_masters():
        weight.sum().backward()
    optimizer.step()
    np.testing.assert_allclose(1 - weight.detach().numpy(), 1e-12, rtol=1e-3)


def test_weights_that_somebody_else_changed_are_taken_over_and_no_others():
    weight = torch.nn.Parameter(torch.full((2,), 0.5, dtype=HALF))
    optimizer = Float32AdamW([weight], lr=1e-5, weight_decay=0.0)
    with optimizer.accumulate_in_masters():
        weight.sum().backward()
    optimizer.step()
    with torch.no_grad():
        weight[1] = 3.0
    optimizer.sync_masters()
    assert optimizer.masters[0].tolist() == pytest.approx([0.49999, 3.0], abs=1e-7)


def test_a_solvable_toy_is_solved_in_bfloat16():
    assert_learns(half(), lr=1e-2)


def test_a_learner_goes_on_from_what_a_cold_start_made_of_the_weights():
    net = half()
    learner, other = Learner(net, lr=1e-6), Learner(net, lr=1e-2)  # as a run builds them
    other.update(rows(PLAIN), PLAIN)
    warm = [weight.detach().clone() for weight in net.parameters()]
    learner.update(rows(PLAIN), PLAIN)
    apart = [
        float((weight.detach() - before).abs().max()) for weight, before in zip(net.parameters(), warm, strict=True)
    ]
    assert max(apart) < 1e-3


def test_the_sampler_computes_in_the_same_precision():
    net = half(rank=4)
    policy = HFPolicy(net)
    assert policy.cache.kv.dtype == HALF
    groups = sample_groups(policy, groups=2, size=4)
    learner = Learner(net, lr=1e-2)
    np.testing.assert_allclose(flat(learner.logprobs(trajectories(groups))), sampler_logprobs(groups), atol=0.05)
    assert abs(learner.update(rows(grpo, groups), grpo)["kl/sampler_trainer"]) < 1e-3


@pytest.mark.parametrize("rank", [0, 4])
def test_a_learner_that_was_saved_goes_on_bit_by_bit(rank):
    def go_on(learner, first, last):
        return [learner.update(rows(grpo, random_groups(n)), grpo, seed=n) for n in range(first, last)]

    first = Learner(half(rank=rank), lr=1e-6, minibatches=2)
    go_on(first, 0, 3)
    state, saved_weights = saved_and_loaded(first)
    expected = go_on(first, 3, 6)
    net = half(rank=rank, seed=1)
    net.load_state_dict(saved_weights)
    second = Learner(net, lr=1e-6, minibatches=2)
    second.load_state_dict(state)
    assert go_on(second, 3, 6) == expected
    assert all(torch.equal(*both) for both in zip(first.optimizer.masters, second.optimizer.masters, strict=True))
    with pytest.raises(ValueError, match="those of other weights"):
        Learner(model(), lr=1e-6).load_state_dict(state)


RUNS: dict[str, dict[str, Any]] = {
    "all weights": {"penalty": "kl_k2:coef=0.01", "cold_start": 4, "cold_start_until": 0.1},
    "adapters": {"lora": 2, "lag": 1},
}


@pytest.mark.parametrize("name", RUNS)
def test_a_killed_run_goes_on_bit_for_bit(name: str, tmp_path: Path) -> None:
    words = flags("Talk", "--lr", "1e-4", updates=4, save_every=2, dtype="bfloat16", **RUNS[name])
    out, die = tmp_path / "run", ("rl.train.run_folder:RunFolder", "write_rollouts", 4)
    result = Child(*words, "--out", str(out), log=tmp_path / "log", die=die).wait()
    assert result.code == -signal.SIGKILL, result.out
    assert train("--resume", "--out", str(out)).code == 0
    assert_same_run(out, train_run(*words, out=tmp_path / "whole"))
    assert {value.dtype for value in weights(out).values()} == {HALF}
    state = read_state(out / "checkpoints/latest/trainer")["learner"]["optimizer"]
    assert {copy.dtype for copy in state["masters"]} == {torch.float32}
    assert any((copy != copy.to(HALF).float()).any() for copy in state["masters"])


def test_what_is_saved_in_bfloat16_is_evaluated_in_float32_with_exact_tables(tmp_path, monkeypatch):
    net, tokenizer = load_pretrained("tiny", dtype=HALF)
    assert {weight.dtype for weight in net.parameters()} == {HALF} and net.config.dtype == HALF
    assert net.model.rotary_emb.inv_freq.dtype == torch.float32
    exact, _ = load_pretrained("tiny")
    assert all(torch.equal(one, other.to(HALF)) for one, other in _pairs(net, exact))
    save_pretrained(net, tokenizer, tmp_path / "saved")
    (file,) = (tmp_path / "saved").glob("*.safetensors")
    assert {value.dtype for value in load_file(file).values()} == {HALF}
    sampled_from = []
    monkeypatch.setattr(HFPolicy, "__init__", _noting(sampled_from))
    argv = ["--env", "games/GuessNumber-v0", "--policy", str(tmp_path / "saved"), "--episodes", "2"]
    assert evaluate.main([*argv, "--turn-tokens", "4", "--json", str(tmp_path / "found.json")]) == 0
    (sampled_model,) = sampled_from
    assert all(torch.equal(one, other.float()) for one, other in _pairs(sampled_model, net))
    assert torch.equal(sampled_model.model.rotary_emb.inv_freq, exact.model.rotary_emb.inv_freq)


def _pairs(one, other):
    return zip(one.parameters(), other.parameters(), strict=True)


def _noting(models):
    """`HFPolicy.__init__` that also appends its model to `models`."""
    whole = HFPolicy.__init__

    def noting(self, net, **more):
        models.append(net)
        whole(self, net, **more)

    return noting
