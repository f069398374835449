"""Ratios against the trainer's own log-probabilities, where the sampler's are of another precision."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from rl.learner.learner import Learner
from rl.methods import recipe as recipes
from rl.methods import streams
from rl.methods.parts import penalty, ratio, score, select
from rl.methods.recipes.grpo import recipe as grpo
from rl.methods.recipes.gspo import recipe as gspo
from rl.methods.recipes.ppo import recipe as ppo
from rl.methods.recipes.reinforce import recipe as reinforce
from rl.methods.recipes.seeupo import recipe as seeupo
from rl.policy import lora
from rl.policy.hf import HFPolicy
from rl.policy.weight_copies import cast_model
from rl.records import Group
from rl.settings import Settings
from rl.train.precision import decouple, description, with_precisions
from tests.support.batches import make_tokens
from tests.support.models import model, perturb_weights
from tests.support.play import flat, rows, sample_groups, trajectories, weights
from tests.support.runs import assert_same_run, train, train_run

HALF = torch.bfloat16
CPU, CUDA = torch.device("cpu"), torch.device("cuda")


class OwnLogprobs:
    """A scorer of the learner alone."""

    def __init__(self, learner: Learner) -> None:
        self.logprobs = learner.logprobs


def wide_model():
    """A toy model whose logits are wide enough to show the rounding of bfloat16."""
    return model("llama", initializer_range=0.3)


def half_samples(net: torch.nn.Module) -> list[Group]:
    return sample_groups(HFPolicy(net, dtype=HALF), groups=4, size=4)


def score_proximal(learner: Learner, groups: list[Group]) -> None:
    asyncio.run(score.proximal(OwnLogprobs(learner), groups))  # type: ignore[arg-type]


def outside_of_the_clip(recipe: recipes.Recipe, groups: list[Group], net: torch.nn.Module) -> float:
    """The share of sampled tokens whose ratio the recipe's clip cuts, before any weight has moved."""
    bounds = recipe.surrogate.keywords  # type: ignore[attr-defined]
    counts = []

    def count(ratios, tokens, **options):
        factor = ratios.exp()
        cut = (factor < 1 - bounds["low"]) | (factor > 1 + bounds["high"])
        counts.append(((cut & tokens.mask).sum().item(), tokens.mask.sum().item()))
        return 0.0 * ratios

    measured = recipe.but(surrogate=count, penalty=(partial(penalty.entropy_bonus, coef=0.0),))
    Learner(net, lr=0.0).update(rows(grpo, groups), measured)
    return sum(cut for cut, _ in counts) / sum(total for _, total in counts)


def test_a_sampler_in_bfloat16_stays_inside_every_clip_before_the_first_step():
    net = wide_model()
    groups = half_samples(net)
    plain = outside_of_the_clip(gspo, groups, net)
    assert plain > 0.5
    score_proximal(Learner(net, lr=0.0), groups)
    assert outside_of_the_clip(gspo, groups, net) == 0
    narrow = ppo.but(surrogate=partial(ppo.surrogate, low=1e-4, high=1e-4))
    assert outside_of_the_clip(narrow, groups, net) == 0


def test_the_gap_to_the_sampler_is_measured_whatever_ratios_compare_with():
    net = wide_model()
    groups = half_samples(net)
    plain = Learner(net, lr=0.0).update(rows(grpo, groups), grpo)
    score_proximal(Learner(net, lr=0.0), groups)
    own = Learner(net, lr=0.0).update(rows(grpo, groups), decouple(grpo))
    assert own["kl/sampler_trainer"] == plain["kl/sampler_trainer"] > 1e-7
    assert own["logp_gap/max"] == plain["logp_gap/max"] > 1e-3
    assert plain["ratio/log_max"] > 1e-3 > 1e-6 > own["ratio/log_max"]


def test_samples_of_one_precision_train_alike_either_way():
    def trained(recipe: recipes.Recipe) -> torch.Tensor:
        net = wide_model()
        groups = sample_groups(HFPolicy(net), groups=4, size=4)
        learner = Learner(net, lr=1e-3)
        if streams.needs(recipe, "proximal"):
            score_proximal(learner, groups)
        learner.update(rows(recipe, groups), recipe)
        return weights(net)

    torch.testing.assert_close(trained(decouple(grpo)), trained(grpo), atol=1e-5, rtol=0)


def test_a_difference_of_the_sampler_is_weighed_and_not_clipped():
    sampler, trainer, now = [[-1.0, -1.0, -1.0]], [[-1.0, -0.5, -3.0]], [[-1.0, -0.5, -3.0]]
    batch = make_tokens(now, trainer, [1.0], behaviour=sampler)
    assert torch.equal(ratio.token(batch), torch.zeros(1, 3))
    expected = [1.0, np.exp(0.5), np.exp(-2.0)]
    np.testing.assert_allclose(select.mismatch_tis(batch)[0], expected, rtol=1e-6)
    np.testing.assert_allclose(select.mismatch_tis(batch, cap=1.2)[0], [1.0, 1.2, np.exp(-2.0)], rtol=1e-6)
    np.testing.assert_allclose(select.mismatch_icepop(batch)[0], [1.0, np.exp(0.5), 0.0], rtol=1e-6)
    # parts that compare with the sampling policy still do
    np.testing.assert_allclose(select.truncated_is(batch)[0], expected, rtol=1e-6)


def test_masks_and_weights_of_turns_look_at_one_turn():
    turns = torch.tensor([[0, 0, 1, -1, 2]])
    batch = make_tokens([[0.0] * 5], [[0.1, 0.3, 2.0, 9.0, -0.1]], [1.0], [[1, 1, 1, 0, 1]], behaviour=[[0.0] * 5])
    batch.labels.turn.copy_(turns)
    mask = select.mismatch_mask(batch, level="turn", low=0.8, high=1.3)
    assert mask.tolist() == [[1, 1, 0, 0, 1]]
    assert select.mismatch_mask(batch, level="turn", over="max", low=0.8, high=1.3).tolist() == [[0, 0, 0, 0, 1]]
    weight = select.mismatch_tis(batch, level="turn", cap=1.45)
    np.testing.assert_allclose(weight, [[1.45, 1.45, 1.45, 0, np.exp(-0.1)]], rtol=1e-6)


# Which runs are decoupled


def test_recipes_without_a_ratio_against_the_sampler_stay_as_they_are():
    assert decouple(reinforce) is reinforce and decouple(seeupo) is seeupo
    once = decouple(gspo)
    assert once.select == (select.mismatch_tis,) and decouple(once) is once
    weighed = decouple(grpo.but(select=(select.truncated_is,)))
    assert weighed.select == (select.truncated_is,) and streams.needs(weighed, "proximal")


@pytest.mark.parametrize(
    ("flags", "device", "expected"),
    [
        ({}, CPU, ("float32", "float32", False)),
        ({"dtype": "bfloat16"}, CPU, ("bfloat16", "bfloat16", True)),
        ({"engine_dtype": "bfloat16"}, CPU, ("float32", "bfloat16", True)),
        ({"engine_dtype": "bfloat16", "decoupled": False}, CPU, ("float32", "bfloat16", False)),
        ({"engine": "vllm", "dtype": "bfloat16"}, CPU, ("bfloat16", "float32", True)),
        ({"decoupled": True}, CPU, ("float32", "float32", True)),
        ({}, CUDA, ("float32", "float32", False)),
        ({"model": "x"}, CUDA, ("bfloat16", "bfloat16", True)),
        ({"model": "x", "engine": "vllm", "dtype": "float32"}, CUDA, ("float32", "bfloat16", True)),
    ],
)
def test_precisions_follow_from_device_model_and_engine(flags, device, expected):
    before = torch.get_float32_matmul_precision()
    try:
        settings = with_precisions(Settings(env="a", **flags), device)
        assert torch.get_float32_matmul_precision() == ("high" if device == CUDA else before)
    finally:
        torch.set_float32_matmul_precision(before)
    assert (settings.dtype, settings.engine_dtype, settings.decoupled) == expected
    assert bool(description(settings)) is (expected[2] and "decoupled" not in flags)


# The sampler


def test_a_sampler_of_another_precision_follows_the_model():
    net = wide_model()
    policy = HFPolicy(net, dtype=HALF)
    first = sample_groups(policy, groups=2, size=2)
    perturb_weights(net, seed=1, size=0.3)
    assert flat(Learner(net, lr=0.0).logprobs(trajectories(first)))
    policy.sync_weights()
    groups = sample_groups(policy, groups=2, size=2)
    gap = np.subtract(flat(Learner(net, lr=0.0).logprobs(trajectories(groups))), [
        x for t in trajectories(groups) for turn in t.turns for x in turn.completion.logprobs
    ])  # fmt: skip
    assert 1e-4 < np.abs(gap).max() < 0.5
    assert policy.cache.kv.dtype == HALF and next(net.parameters()).dtype == torch.float32


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_adapters_and_every_forward_are_cast(kind):
    net = model(kind)
    policy = HFPolicy(net, dtype=HALF)
    lora.attach(net, 2, alpha=4)
    perturb_weights(net, seed=3, size=0.1)
    policy.sync_weights()
    groups = sample_groups(policy, groups=2, size=2)
    own = flat(Learner(net, lr=0.0).logprobs(trajectories(groups)))
    recorded = [x for t in trajectories(groups) for turn in t.turns for x in turn.completion.logprobs]
    assert np.abs(np.subtract(own, recorded)).max() < 0.2
    cast = cast_model(net, HALF)
    assert {weight.dtype for weight in cast.parameters()} == {HALF}
    assert {weight.dtype for weight in net.parameters()} == {torch.float32}


# Runs

FLAGS = ("--env", "tests.support.tasks:Low", "--cold-start", "0", "--groups", "4", "--size", "4", "--save-every", "1")


def test_a_run_in_two_precisions_says_so_and_resumes_bit_for_bit(tmp_path: Path):
    flags = (*FLAGS, "--engine-dtype", "bfloat16", "--algo", "gspo")
    dry = train(*flags, "--dry-run")
    assert "ratios compare with the trainer's own log-probabilities" in dry.out and dry.code == 0
    assert 'engine_dtype = "bfloat16"\ndecoupled = true' in dry.out and "select = []" in dry.out
    assert "log-probabilities" not in train(*flags, "--dry-run", "--no-decoupled").out
    whole = train_run(*flags, "--updates", "4", out=tmp_path / "whole")
    parts = train_run(*flags, "--updates", "2", out=tmp_path / "parts")
    resumed = train("--resume", "--out", str(parts), "--updates", "4")
    assert resumed.code == 0, resumed.err
    assert_same_run(whole, parts)
