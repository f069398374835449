"""Recomputing blocks in the backward pass gives the same gradient with less memory."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rl.learner import forward
from rl.learner.batch import trajectory_rows
from rl.learner.learner import Learner
from rl.methods.recipes.ppo import recipe as ppo
from rl.policy import lora
from tests.rl.learner.test_packing import PLAIN, SPECIAL, assert_close, gradient
from tests.support.memory import peak_bytes, saved_bytes
from tests.support.models import OTHER_FAMILIES, PACKED_FAMILIES, model
from tests.support.play import random_groups, random_trajectory, rows, trajectories

FAMILIES = [*PACKED_FAMILIES, *OTHER_FAMILIES, *SPECIAL]


def long_rows(count=4, turns=12):
    """Rows of a few hundred tokens."""
    rng = np.random.default_rng(0)
    records = [random_trajectory(rng, (1, 2, 3, 4), turns=turns) for _ in range(count)]
    return [row for n, one in enumerate(records) for row in trajectory_rows(one, np.ones(one.num_sampled), number=n)]


def learner(net, **more):
    return Learner(net, lr=0.0, max_grad_norm=1e9, **more)


def train_once(net, batch, recompute, recipe=PLAIN, **more):
    """Return the gradient and the metrics of one update."""
    net.zero_grad()
    metrics = learner(net, recompute=recompute, **more).update(batch, recipe)
    return gradient(net), metrics


@pytest.mark.parametrize("kind", FAMILIES)
def test_the_gradient_is_the_same_bit_for_bit(kind):
    net = model(kind, **SPECIAL.get(kind, {}))
    for batch in (rows(PLAIN), long_rows()):
        plain, again = (train_once(net, batch, recompute) for recompute in (False, True))
        assert float(plain[0].norm()) > 0
        assert torch.equal(plain[0], again[0]) and plain[1] == again[1]
    assert not any("forward" in vars(module) for module in net.modules())


@pytest.mark.parametrize("kind", ["qwen2", "gemma3_text"])
def test_so_it_is_of_adapters_and_of_a_critic_at_a_temperature(kind):
    net = model(kind)
    lora.attach(net, 4, alpha=8)
    groups = random_groups()
    for turn in (turn for one in trajectories(groups) for turn in one.turns):
        turn.streams.update(value=(0.1,) * len(turn.completion.ids))
    batch = rows(ppo, groups, temperature=0.7)
    plain, again = (train_once(net, batch, recompute, ppo, critic=True) for recompute in (False, True))
    assert float(plain[0].norm()) > 0
    assert torch.equal(plain[0], again[0]) and plain[1] == again[1]


@pytest.mark.parametrize("kind", [*PACKED_FAMILIES, *OTHER_FAMILIES])
def test_less_is_kept_for_the_backward_pass_and_less_is_alive_at_its_peak(kind):
    net = model(kind, num_hidden_layers=8)
    batch, width = long_rows(), net.config.hidden_size

    def measure(recompute):
        one = learner(net, recompute=recompute)
        return saved_bytes(lambda: one.forward(net, batch)["logp"].sum(), apart_from=net.parameters())

    plain, less = measure(False), measure(True)
    inputs = 8 * sum(len(row.prefix) + row.size for row in batch) * width * 4
    assert less < plain / 4
    assert less >= 0.7 * inputs  # what a block is computed again from
    highest = [peak_bytes(lambda one=one: train_once(net, batch, one)) for one in (False, True)]
    assert highest[1] < 0.6 * highest[0]


def test_wide_models_are_not_copied_to_be_trained(monkeypatch):
    net, batch = model("llama"), rows(PLAIN)
    results = {}
    for wide in (1, 10**6):
        monkeypatch.setattr("rl.policy.decoder.WIDE_HIDDEN_SIZE", wide)
        results[wide] = (
            train_once(net, batch, False)[0],
            saved_bytes(lambda: learner(net).forward(net, batch)["logp"].sum(), apart_from=net.parameters()),
        )
    layer = net.model.layers[0]
    fused_layers = (
        layer.self_attn.q_proj,
        layer.self_attn.k_proj,
        layer.self_attn.v_proj,
        layer.mlp.gate_proj,
        layer.mlp.up_proj,
    )
    assert results[10**6][1] - results[1][1] == 2 * 4 * sum(linear.weight.numel() for linear in fused_layers)
    assert_close(results[1][0], results[10**6][0])


def test_a_model_whose_blocks_are_not_known_is_refused_in_one_line(monkeypatch):
    monkeypatch.setattr(forward, "GradientCheckpointingLayer", type("Nothing", (), {}))
    with pytest.raises(ValueError, match="--checkpoint-activations: the blocks of model type 'gpt2'"):
        learner(model("gpt2"), recompute=True)
