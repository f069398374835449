"""Parts that see a whole optimiser step before its micro-batches, and what score parts ask of the trained model."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from rl.learner import measures
from rl.learner.learner import Learner
from rl.learner.loss import step_streams
from rl.methods import recipe as recipes
from rl.methods import streams
from rl.methods.options import PartError
from rl.methods.parts import score, step
from rl.methods.recipes.grpo import recipe as grpo
from rl.policy.hf import HFPolicy
from rl.records import Group
from tests.support.batches import make_tokens, off_policy, toy_groups
from tests.support.models import OTHER_FAMILIES, PACKED_FAMILIES, VOCAB, model, perturb_weights
from tests.support.play import assert_same_step, flat, random_groups, rows, sample_groups, trajectories, weights

LR = 1e-3


def stale_groups(net: torch.nn.Module) -> list[Group]:
    """Groups that another policy has sampled, so that ratios are not 1."""
    groups = sample_groups(HFPolicy(net), groups=3, size=4)
    perturb_weights(net, seed=1)
    return groups


def trained(name: str, groups: list[Group], net: torch.nn.Module, **settings: Any) -> torch.Tensor:
    """All weights after one update with the recipe."""
    learner, recipe = Learner(net, lr=LR, **settings), recipes.load(name)
    for fill in streams.score_parts(recipe):
        asyncio.run(fill(Own(learner), groups))  # type: ignore[arg-type]
    learner.update(rows(recipe, groups), recipe)
    return weights(net)


class Own:
    """A scorer of the learner alone."""

    def __init__(self, learner: Learner) -> None:
        self.logprobs = learner.logprobs
        self.squares = partial(measures.squares, learner)
        self.gradient_norms = partial(measures.gradient_norms, learner)


@pytest.mark.parametrize("name", ["bapo", "kl_cov", "m2po", "d3s"])
def test_the_step_is_the_same_in_one_micro_batch_and_in_many(name: str) -> None:
    one, many = (model() for _ in range(2))
    groups = stale_groups(one)
    perturb_weights(many, seed=1)
    assert_same_step(trained(name, groups, one), trained(name, groups, many, microbatch_tokens=16), lr=LR)


def test_a_step_that_reads_no_current_policy_costs_no_forward_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    net, counts = model(), []
    groups = stale_groups(net)
    forward = Learner.forward

    def count(self: Learner, *args: Any, **kwargs: Any) -> Any:
        counts.append(1)
        return forward(self, *args, **kwargs)

    monkeypatch.setattr(Learner, "forward", count)
    for part in (step.effective_size, step.second_moment):
        recipe = grpo.but(step=(part,))
        learner = Learner(net, lr=0.0)
        asyncio.run(score.proximal(Own(learner), groups))  # type: ignore[arg-type]
        counts.clear()
        learner.update(rows(recipe, groups), recipe)
        assert len(counts) == (2 if part is step.second_moment else 1)


def test_the_rate_of_a_step_multiplies_that_step_s_learning_rate_only() -> None:
    net = model()
    groups, learner = stale_groups(net), Learner(net, lr=1e-2)
    halved = grpo.but(step=(lambda tokens: {"rate": torch.tensor(0.5)}, lambda tokens: {"rate": torch.tensor(0.5)}))
    learner.update(rows(halved, groups), halved, scale=0.8)
    assert learner.optimizer.param_groups[0]["lr"] == pytest.approx(1e-2 * 0.8 * 0.25)
    learner.update(rows(grpo, groups), grpo, scale=0.8)
    assert learner.optimizer.param_groups[0]["lr"] == pytest.approx(1e-2 * 0.8)


def test_weights_of_several_step_parts_are_multiplied_and_other_names_are_given_once() -> None:
    tokens = make_tokens([[0.0, 0.0]], [[0.0, 0.0]], [1.0])
    weigh = lambda tokens: {"weight": torch.tensor([[2.0, 3.0]])}  # noqa: E731
    streams, rate = step_streams(tokens, grpo.but(step=(weigh, weigh)))
    assert streams["weight"].tolist() == [[4.0, 9.0]] and rate == 1
    bound = lambda tokens: {"low": torch.ones(1, 2)}  # noqa: E731
    with pytest.raises(PartError, match="two step parts give 'low'"):
        step_streams(tokens, grpo.but(step=(bound, bound)))
    with pytest.raises(PartError, match=r"step returned a tensor of shape \(2,\)"):
        step_streams(tokens, grpo.but(step=(lambda tokens: {"low": torch.ones(2)},)))


@pytest.mark.parametrize("kind", [*PACKED_FAMILIES, *OTHER_FAMILIES])
def test_gradient_norms_of_many_trajectories_together_are_those_of_each_alone(kind: str) -> None:
    net = model(kind, pad_token_id=7)  # a token that embeddings of transformers have no gradient for
    members = [one for seed in range(4) for one in random_groups(seed)[0].trajectories]
    assert any(7 in turn.completion.ids for one in members for turn in one.turns)
    learner = Learner(net, lr=0.0, microbatch_tokens=40)
    alone = [measures._gradient_norm(learner, member) for member in members]
    together = measures._per_sample_norms(learner, members)
    assert (together is None) == (kind == "gpt2"), "its own forward looks for padding in the tokens"
    if together is not None:
        assert together == pytest.approx(alone, rel=1e-3)
    assert measures.gradient_norms(learner, members) == pytest.approx(alone, rel=1e-3)
    assert getattr(net.get_input_embeddings(), "padding_idx", None) in (7, None)


def test_gradient_norms_are_computed_one_after_the_other_where_together_they_would_be_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    net = model()
    learner, members = Learner(net, lr=0.0), [one for group in random_groups() for one in group.trajectories]
    alone = [measures._gradient_norm(learner, member) for member in members]
    assert measures._per_sample_norms(learner, members) is None, "trajectories of several rows"
    assert measures.gradient_norms(learner, members) == alone
    monkeypatch.setattr(measures, "_per_sample_norms", lambda *_: [2.0 * norm for norm in alone])
    assert measures.gradient_norms(learner, members) == alone
    monkeypatch.undo()
    assert measures.gradient_norms(learner, []) == []
    assert measures._per_sample_norms(learner, members[:3]) is not None
    nothing, twice = replace(members[0], turns=[]), next(one for one in members if len(list(one.sequences())) == 2)
    assert measures._per_sample_norms(learner, [members[0], twice, nothing]) is None, "as many rows as trajectories"
    for name, value in (("PER_SAMPLE_BYTES", 0), ("WHOLE_LOGITS", VOCAB * 8)):
        with monkeypatch.context() as patch:
            patch.setattr(measures, name, value)
            assert measures._per_sample_norms(learner, members[:3]) is None, name
    learner.recompute = True
    assert measures._per_sample_norms(learner, members[:3]) is None


def test_squares_and_gradient_norms_are_those_of_a_plain_forward_pass() -> None:
    net = model()
    groups, learner = stale_groups(net), Learner(net, lr=0.0, microbatch_tokens=24)
    members = trajectories(groups)
    squares = flat(measures.squares(learner, members))
    norms = measures.gradient_norms(learner, members)
    place = 0
    for member, norm in zip(members, norms, strict=True):
        total = torch.zeros(())
        for history in member.sequences():
            ids = torch.tensor(history.ids)
            logits = net(ids[None]).logits[0].log_softmax(-1)
            for t in np.flatnonzero(history.sampled):
                assert squares[place] == pytest.approx(float(logits[t - 1].exp().square().sum()), rel=1e-4)
                total = total + logits[t - 1, ids[t]]
                place += 1
        net.zero_grad()
        (total / member.num_sampled).backward()
        squared = sum(float(weight.grad.square().sum()) for weight in net.parameters() if weight.grad is not None)
        assert norm == pytest.approx(squared**0.5, rel=1e-3)


@pytest.mark.parametrize("name", [name for name, _ in recipes.catalogue()])
def test_a_log_probability_of_minus_infinity_where_nothing_was_sampled_is_never_read(name: str) -> None:
    recipe = recipes.load(name)
    batch = off_policy(toy_groups(), recipe)
    hole = torch.full_like(batch.old, -1e9).where(~batch.mask, 0.0)
    with torch.no_grad():
        streams, rate = step_streams(replace(batch, logp=batch.logp + hole, old=batch.old + hole), recipe)
        plain, same_rate = step_streams(batch, recipe)
    assert rate == pytest.approx(same_rate)
    for key, table in plain.items():
        torch.testing.assert_close(streams[key][batch.mask], table[batch.mask])
