"""Tokens that an update draws at every position: as often as the policy has them, with the policy's own gradient."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest
import torch

from rl.learner import logprobs
from rl.learner.batch import build_rows, trajectory_rows
from rl.learner.forward import score_tokens
from rl.learner.learner import Learner
from rl.methods.parts import score
from rl.methods.recipe import load
from rl.methods.streams import score_parts
from rl.records import Trajectory
from tests.support.batches import ToyScorer, make_group, make_trajectory
from tests.support.models import model
from tests.support.play import assert_same_step

CPU = torch.device("cpu")


def drawn_rows(*members: Trajectory, count: int = 64) -> list[Any]:
    group = make_group(*members)
    asyncio.run(score.draws(ToyScorer(), [group], count=count))
    return [
        row
        for number, member in enumerate(members)
        for row in trajectory_rows(member, np.ones(member.num_sampled), number=number)
    ]


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_tokens_are_drawn_as_often_as_the_policy_has_them(kind: str) -> None:
    rows = drawn_rows(make_trajectory((3, 0.0), (2, 1.0)), make_trajectory((4, 1.0)), count=4000)
    scores = score_tokens(model(kind), rows, CPU)
    torch.testing.assert_close(scores.further["hits"], scores.logp.exp(), atol=0.02, rtol=0)
    torch.testing.assert_close(scores.further["drawn"], -scores.entropy, atol=0.06, rtol=0)  # its expectation
    assert not scores.further["hits"].requires_grad


def test_without_the_streams_nothing_is_drawn() -> None:
    (row,) = trajectory_rows(make_trajectory((3, 0.0)), np.ones(3))
    assert score_tokens(model(), [row], CPU).further == {}


def test_draws_are_those_of_one_chunk_whatever_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = drawn_rows(make_trajectory((5, 0.0)), make_trajectory((4, 1.0)))

    def gradient() -> list[torch.Tensor]:
        net = model()
        scores = score_tokens(net, rows, CPU)
        (scores.further["drawn"] * scores.further["hits"]).sum().backward()
        return [scores.further["drawn"], *(weight.grad for weight in net.parameters() if weight.grad is not None)]

    whole = gradient()
    monkeypatch.setattr(logprobs, "CHUNK_LOGITS", 1)
    for one, other in zip(whole, gradient(), strict=True):
        torch.testing.assert_close(one, other)


def test_a_long_trajectory_has_the_gradient_of_a_short_budget() -> None:
    recipe, lr = load("otr"), 1e-2

    def updated(budget: int) -> torch.Tensor:
        made = Learner(model(), lr=lr, microbatch_tokens=budget)
        late = make_trajectory((6, 0.0), (5, 1.0))
        late.turns[1].fresh = True  # two rows of one trajectory
        groups = [make_group(late), make_group(make_trajectory((3, 1.0)), number=1)]
        for fill in score_parts(recipe):
            asyncio.run(fill(ToyScorer(), groups))
        made.update(build_rows(groups, recipe), recipe)
        return torch.cat([weight.detach().flatten() for weight in made.parameters()])

    assert_same_step(updated(1000), updated(8), lr=lr)


def test_imitation_makes_what_is_recorded_likelier() -> None:
    recipe, made = load("otr"), Learner(model(), lr=1e-2)
    member = make_trajectory((4, 0.0), (4, 1.0))
    before = sum(sum(turn) for turn in made.logprobs([member])[0])
    for number in range(30):
        group = make_group(member, number=number)
        for fill in score_parts(recipe):
            asyncio.run(fill(ToyScorer(), [group]))
        made.update(build_rows([group], recipe), recipe)
    assert sum(sum(turn) for turn in made.logprobs([member])[0]) > before + 4
