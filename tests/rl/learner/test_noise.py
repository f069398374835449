"""The noise scale that is read from AdamW's moments, against gradients whose mean and variance are known."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from rl.learner.adamw import Float32AdamW
from rl.learner.noise import FIRST_STEP, gradient_noise

SIZE = 4000  # weights


def measured(signal: float, noise: float, *, steps: int, groups: float = 2.0) -> list[dict[str, float]]:
    """What is read after each step with gradients of this squared mean and this variance of a step, both summed."""
    torch.manual_seed(0)
    weights = [nn.Parameter(torch.zeros(SIZE // 2)), nn.Parameter(torch.zeros(SIZE // 4, 2))]
    optimizer = Float32AdamW(weights, lr=0.0, weight_decay=0.0)
    results = []
    for _ in range(steps):
        for weight in weights:
            weight.grad = (signal / SIZE) ** 0.5 + torch.randn(weight.shape) * (noise / SIZE) ** 0.5
        optimizer.step()
        results.append(gradient_noise(optimizer, groups))
    return results


@pytest.mark.parametrize("steps", [10, 300])
def test_signal_and_noise_of_gradients_are_told_apart_early_and_late(steps: int) -> None:
    result = measured(0.5, 2.0, steps=steps)[-1]
    assert result["gradient/signal"] == pytest.approx(0.5, rel=0.15)
    assert result["gradient/noise"] == pytest.approx(2 * 2.0, rel=0.1)
    assert result["gradient/noise_scale"] == result["gradient/noise"] / result["gradient/signal"]


def test_of_noise_alone_the_signal_is_small_and_where_it_is_below_0_there_is_no_scale() -> None:
    results = measured(0.0, 2.0, steps=60)[10:]
    assert all(abs(result["gradient/signal"]) < 0.03 * 2.0 for result in results)
    below = [result for result in results if result["gradient/signal"] <= 0]
    assert below and not any("gradient/noise_scale" in result for result in below)


def test_nothing_is_said_of_the_first_step() -> None:
    results = measured(0.5, 2.0, steps=FIRST_STEP)
    assert not any(results[:-1]) and results[-1]
