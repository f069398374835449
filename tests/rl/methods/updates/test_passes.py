"""The passes of an update: SFPO's fast steps, step back and slow step, in numbers and in a learner."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from rl.learner.batch import build_rows
from rl.learner.learner import Learner
from rl.methods.parts import passes
from rl.methods.recipe import Recipe, load
from tests.support.batches import toy_groups
from tests.support.models import model


def learner() -> Learner:
    return Learner(model(), lr=1e-3)


class Spy:
    """Passes of a part, with the weights before and after each."""

    def __init__(self, part: passes.slow_fast) -> None:
        self.part, self.seen = part, list[list[Tensor]]()

    def __call__(self, weights: passes.Weights, epochs: int) -> Iterator[None]:
        for _ in self.part(weights, epochs):
            self.seen.append(weights.copy())
            yield
            self.seen.append(weights.copy())


def updated(recipe: Recipe, epochs: int = 1) -> list[Tensor]:
    made = learner()
    made.epochs = epochs
    made.update(build_rows(toy_groups(), recipe), recipe)
    return [weight.detach().clone() for weight in made.parameters()]


def test_the_slow_pass_begins_part_of_the_way_back_and_moments_stay() -> None:
    spy, made = Spy(passes.slow_fast(fast=2, alpha=0.25)), learner()
    recipe = load("sfpo").but(passes=spy)
    start = [weight.detach().clone() for weight in made.parameters()]
    made.update(build_rows(toy_groups(), recipe), recipe)
    before_slow = spy.seen[4]
    for origin, after_fast, moved in zip(start, spy.seen[3], before_slow, strict=True):
        torch.testing.assert_close(moved, origin + 0.25 * (after_fast - origin))
    assert any(not torch.equal(a, b) for a, b in zip(before_slow, spy.seen[5], strict=True))
    assert {int(state["step"]) for state in made.optimizer.state.values()} == {3}


def test_without_a_step_back_the_passes_are_those_of_more_epochs() -> None:
    sfpo, plain = updated(load("sfpo").but(passes=passes.slow_fast(alpha=1.0))), updated(load("grpo"), epochs=4)
    assert all(torch.allclose(a, b, rtol=0, atol=1e-7) for a, b in zip(sfpo, plain, strict=True))


@pytest.mark.parametrize("alpha, epochs", [(0.0, 1), (0.0, 2)])
def test_wasted_passes_are_not_made(alpha: float, epochs: int) -> None:
    sfpo = updated(load("sfpo").but(passes=passes.slow_fast(alpha=alpha)), epochs)
    assert all(torch.equal(a, b) for a, b in zip(sfpo, updated(load("grpo"), epochs), strict=True))


def test_bfloat16_weights_are_those_of_their_moved_masters() -> None:
    made = Learner(model().to(torch.bfloat16), lr=1e-2)
    recipe = load("sfpo")
    made.update(build_rows(toy_groups(), recipe), recipe)
    assert made.optimizer.pairs
    assert all(torch.equal(weight, master.to(weight.dtype)) for weight, master in made.optimizer.pairs)


class Quadratic:
    """Weights that minimise `curvature / 2 * (weights - optimum)^2`, one plain gradient step for each pass."""

    def __init__(self, inputs: dict[str, Any]) -> None:
        self.weights, self.curvature, self.optimum = (
            torch.tensor(inputs[name], dtype=torch.float64) for name in ("theta0", "curvature", "optimum")
        )

    def copy(self) -> list[Tensor]:
        return [self.weights.clone()]

    def move(self, start: list[Tensor], share: float) -> None:
        self.weights = start[0] + share * (self.weights - start[0])

    def entropy(self) -> float:
        return 1.0


def run(part: passes.slow_fast, weights: Quadratic, lr: float) -> list[Tensor]:
    """The weights before and after each pass."""
    seen = []
    for _ in part(weights, 1):
        seen.append(weights.weights.clone())
        weights.weights -= lr * weights.curvature * (weights.weights - weights.optimum)
        seen.append(weights.weights.clone())
    return seen
