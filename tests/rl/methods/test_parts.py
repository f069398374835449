"""Loss parts against numbers worked out by hand, away from ratio 1 where they differ, value and gradient."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from rl.methods.parts import penalty, ratio, reduce, select, surrogate
from tests.support.batches import make_labels, make_tokens

UP, DOWN = math.log(1.5), math.log(0.5)


@pytest.mark.parametrize(
    "part, log_ratio, advantage, loss, slope",
    [
        (surrogate.linear, UP, 1.0, -1.5, -1.5),
        (surrogate.linear, DOWN, -1.0, 0.5, 0.5),
        (surrogate.clip, UP, 1.0, -1.2, 0.0),
        (partial(surrogate.clip, high=0.28), UP, 1.0, -1.28, 0.0),
        (surrogate.clip, UP, -1.0, 1.5, 1.5),
        (surrogate.clip, DOWN, 1.0, -0.5, -0.5),
        (surrogate.clip, DOWN, -1.0, 0.8, 0.0),
        (surrogate.clip, 25.0, -1.0, math.exp(20), 0.0),
        (surrogate.dual_clip, math.log(4), -1.0, 3.0, 0.0),
        (surrogate.dual_clip, math.log(2), -1.0, 2.0, 2.0),
        (surrogate.dual_clip, DOWN, -1.0, 0.8, 0.0),
        (surrogate.dual_clip, DOWN, 1.0, -0.5, -0.5),
        (partial(surrogate.cispo, high=0.2), UP, 1.0, -1.2 * (UP - 1), -1.2),
        (surrogate.cispo, UP, 1.0, -1.5 * (UP - 1), -1.5),
        (surrogate.cispo, math.log(9), 1.0, -5.0 * (math.log(9) - 1), -5.0),
        (partial(surrogate.cispo, low=0.2), DOWN, -1.0, 0.8 * (DOWN - 1), 0.8),
        (surrogate.nll, UP, 0.0, 1 - UP, -1.0),
        (surrogate.nll, UP, -3.0, 1 - UP, -1.0),
    ],
)
def test_a_surrogate_has_this_value_and_this_gradient(part, log_ratio, advantage, loss, slope) -> None:
    batch = make_tokens([[log_ratio - 1]], [[-1.0]], [[advantage]])
    value = part(ratio.token(batch), batch)
    value.sum().backward()
    assert value.item() == pytest.approx(loss)
    assert batch.logp.grad.item() == pytest.approx(slope)


def test_dual_clip_refuses_a_cap_that_would_flip_the_clip() -> None:
    batch = make_tokens([[-1.0]], [[-1.0]], [[1.0]])
    with pytest.raises(ValueError, match=r"cap=0\.5 must exceed 1"):
        surrogate.dual_clip(ratio.token(batch), batch, cap=0.5)


LOG_RATIOS = [[0.1, 0.0, -0.3], [0.4, 0.2, 0.0]]
MASK = [[1, 0, 1], [1, 1, 0]]


@pytest.mark.parametrize(
    "part, value, slope",
    [
        (ratio.token, [0.1, -0.3, 0.4, 0.2], [1, 2, 3, 4]),
        (ratio.on_policy, [0, 0, 0, 0], [1, 2, 3, 4]),
        (ratio.sequence, [-0.1, -0.1, 0.3, 0.3], [1.5, 1.5, 3.5, 3.5]),
        (ratio.sequence_token, [-0.1, -0.1, 0.3, 0.3], [1, 2, 3, 4]),
        (ratio.turn, [0.1, -0.3, 0.3, 0.3], [1, 2, 3.5, 3.5]),
    ],
)
def test_a_ratio_has_this_value_and_spreads_the_gradient_like_this(part, value, slope) -> None:
    zeros = [[0.0] * 3] * 2
    batch = make_tokens(LOG_RATIOS, zeros, zeros, MASK)
    result = part(batch)[batch.mask]
    (result * torch.tensor([1.0, 2.0, 3.0, 4.0])).sum().backward()
    np.testing.assert_allclose(result.detach(), value, atol=1e-12)
    np.testing.assert_allclose(batch.logp.grad[batch.mask], slope, atol=1e-12)
    assert (batch.logp.grad[~batch.mask] == 0).all()


@pytest.mark.parametrize("part", [ratio.sequence, ratio.sequence_token])
def test_a_sequence_ratio_runs_over_all_rows_of_its_trajectory(part) -> None:
    zeros = [[0.0] * 3] * 2
    batch = make_tokens(LOG_RATIOS, zeros, zeros, MASK)
    batch = replace(batch, labels=make_labels(batch.mask, trajectory=[7, 7]))
    np.testing.assert_allclose(part(batch)[batch.mask].detach(), [0.1] * 4, atol=1e-12)


def test_a_long_turn_apart_from_a_short_one_is_not_averaged_with_it_even_without_a_gap() -> None:
    batch = make_tokens([[0.6, 0.0, 0.3]], [[0.0] * 3], [[1.0] * 3])
    batch = replace(batch, labels=replace(batch.labels, turn=torch.tensor([[0, 1, 1]])))
    np.testing.assert_allclose(ratio.turn(batch).detach(), [[0.6, 0.15, 0.15]])


@pytest.mark.parametrize(
    "part, weight",
    [
        (select.every_token, [1, 1, 1, 1]),
        (select.truncated_is, [2, 0.5, 2, 1]),
        (partial(select.truncated_is, cap=4.0, floor=0.8), [3, 0.8, 4, 1]),
        (partial(select.truncated_is, level="sequence", cap=9.0), [1.5, 1.5, 4, 4]),
        (select.masked_is, [3, 0.5, 4, 1]),
        (partial(select.masked_is, low=0.9, high=3.5), [3, 0, 0, 1]),
    ],
)
def test_a_selection_weighs_tokens_like_this_and_is_detached(part, weight) -> None:
    log_ratios = [[math.log(3), 0.0, math.log(0.5)], [math.log(4), 0.0, 9.0]]
    batch = make_tokens(log_ratios, [[0.0] * 3] * 2, [[0.0] * 3] * 2, MASK)
    result = part(batch)
    np.testing.assert_allclose(result[batch.mask], weight)
    assert not result.requires_grad
    assert (result[~batch.mask] == 0).all()


@pytest.mark.parametrize(
    "part, value, slope",
    [
        (penalty.kl_k1, 0.5, 1.0),
        (penalty.kl_abs, 0.5, 1.0),
        (penalty.kl_k2, 0.125, 0.5),
        (penalty.kl_k3, math.exp(-0.5) - 0.5, 1 - math.exp(-0.5)),
        (partial(penalty.kl_k3, straight_through=True), math.exp(-0.5) - 0.5, 0.5),
    ],
)
def test_a_kl_penalty_has_this_value_and_this_gradient(part, value, slope) -> None:
    batch = make_tokens([[-1.0]], [[-1.0]], [[0.0]], ref=[[-1.5]])
    result = part(batch, coef=0.1)
    result.sum().backward()
    assert result.item() == pytest.approx(0.1 * value)
    assert batch.logp.grad.item() == pytest.approx(0.1 * slope)
    with pytest.raises(ValueError, match="reference"):
        part(replace(batch, ref=None), coef=0.1)


def test_the_entropy_bonus_pushes_entropy_up() -> None:
    entropy = torch.tensor([[0.7]], dtype=torch.float64, requires_grad=True)
    result = penalty.entropy_bonus(make_tokens([[-1.0]], [[-1.0]], [[0.0]], entropy=entropy), coef=0.1)
    result.sum().backward()
    assert (result.item(), entropy.grad.item()) == (pytest.approx(-0.07), pytest.approx(-0.1))


@pytest.mark.parametrize(
    "value, old, clip, loss, slope",
    [
        (1.0, 1.0, 0.5, 0.5, 1.0),
        (1.0, 0.0, 0.5, 0.5, 1.0),
        (1.0, 2.0, 0.5, 1.125, 0.0),
        (1.0, 2.0, float("inf"), 0.5, 1.0),
    ],
)
def test_the_critic_s_error_is_the_larger_of_the_free_and_the_clipped_one(value, old, clip, loss, slope) -> None:
    now = torch.tensor([[value]], dtype=torch.float64, requires_grad=True)
    batch = make_tokens([[-1.0]], [[-1.0]], [[0.0]], value=now, old_value=[[old]], returns=[[0.0]])
    result = penalty.value_error(batch, coef=1.0, clip=clip)
    result.sum().backward()
    assert (result.item(), now.grad.item()) == (pytest.approx(loss), pytest.approx(slope))
    with pytest.raises(ValueError, match="value_error reads"):
        penalty.value_error(replace(batch, returns=None))


# Shares of the step: reduce.

SHARE_MASK = torch.tensor([[1, 1, 1, 0], [1, 0, 1, 1], [1, 0, 0, 0], [0, 0, 0, 0]], dtype=torch.float64)
OWNERS = [0, 1, 1, 2]  # the second trajectory has two rows, the third was left without a token
GROUPS = [0, 0, 0, 1]


@pytest.mark.parametrize(
    "part, share",
    [
        (reduce.token_mean, [1 / 7] * 7),
        (reduce.sequence_mean, [1 / 6] * 3 + [1 / 8] * 4),
        (reduce.sequence_sum, [1 / 2] * 7),
        (partial(reduce.constant, length=5), [1 / 10] * 7),
        (partial(reduce.constant, length=5, per_trajectory=False), [1 / 5] * 7),
        (reduce.group_mean, [1 / 7] * 7),
        (reduce.turn_mean, [1 / 12] * 3 + [1 / 4] + [1 / 8] * 2 + [1 / 4]),
    ],
)
def test_shares_count_trajectories_and_not_rows(part, share) -> None:
    marks = make_labels(SHARE_MASK, trajectory=OWNERS, group=GROUPS)
    marks.turn[2, 0] = 2  # the third row goes on where the second one ended
    result = part(SHARE_MASK, marks)
    np.testing.assert_allclose(result[SHARE_MASK > 0], share)
    assert (result[SHARE_MASK == 0] == 0).all()


def test_shares_of_groups_of_unequal_size_give_each_group_the_same() -> None:
    mask = torch.tensor([[1, 1, 1], [1, 0, 0], [1, 1, 0]], dtype=torch.float64)
    result = reduce.group_mean(mask, make_labels(mask, group=[4, 4, 9]))
    np.testing.assert_allclose(result[mask > 0], [1 / 8] * 4 + [1 / 4] * 2)


@pytest.mark.parametrize("part", [reduce.token_mean, reduce.sequence_mean, reduce.sequence_sum, reduce.turn_mean])
def test_a_step_without_sampled_tokens_has_no_loss_and_no_nan(part) -> None:
    mask = torch.zeros(2, 3)
    assert (part(mask, make_labels(mask)) == 0).all()
