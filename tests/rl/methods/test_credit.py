"""Baselines, scales and credit against numbers worked out by hand, and against the laws they obey."""

from __future__ import annotations

import asyncio
import math
from functools import partial

import numpy as np
import pytest

from envs.types import Stop
from rl.methods import recipe as recipes
from rl.methods.estimators import returns, statistics
from rl.methods.parts import baseline, credit, scale, score
from rl.methods.recipe import Recipe
from rl.records import Group
from tests.support.batches import ToyScorer, make_group, make_trajectory, toy_groups

REWARDS = np.array([1.0, 0.0, 0.0, 1.0, 0.3, 0.3, 0.3, 2.0])
MEMBERS = np.array([0, 0, 0, 0, 5, 5, 5, 9])
LENGTHS = np.array([4, 2, 2, 8, 1, 2, 3, 4])


@pytest.mark.parametrize(
    "part, advantage",
    [
        (baseline.none, [1, 0, 0, 1, 0.3, 0.3, 0.3, 2]),
        (baseline.group_mean, [0.5, -0.5, -0.5, 0.5, 0, 0, 0, 0]),
        (partial(baseline.group_mean, singleton="raw"), [0.5, -0.5, -0.5, 0.5, 0, 0, 0, 2]),
        (baseline.leave_one_out, [2 / 3, -2 / 3, -2 / 3, 2 / 3, 0, 0, 0, 0]),
        (baseline.length_weighted_mean, [0.25, -0.75, -0.75, 0.25, 0, 0, 0, 0]),
        (baseline.batch_mean, list(REWARDS - 0.6125)),
    ],
)
def test_a_baseline_leaves_these_advantages(part, advantage) -> None:
    result = REWARDS - part(REWARDS, MEMBERS, LENGTHS)
    np.testing.assert_allclose(result, advantage, atol=1e-12)
    order = np.random.default_rng(0).permutation(8)
    moved = REWARDS[order] - part(REWARDS[order], MEMBERS[order], LENGTHS[order])
    np.testing.assert_allclose(moved, result[order], atol=1e-12)


GROUP_RELATIVE = [baseline.group_mean, baseline.leave_one_out, baseline.length_weighted_mean]


@pytest.mark.parametrize("scaled", [scale.none, scale.group_std, scale.batch_std])
@pytest.mark.parametrize("part", GROUP_RELATIVE)
def test_equal_rewards_and_a_group_of_one_give_exactly_zero(part, scaled) -> None:
    for reward in (0.1, 1 / 3, 1e9 + 0.1, -0.7):
        rewards, members = np.full(8, reward), np.array([0, 0, 0, 0, 0, 0, 0, 1])
        centred = rewards - part(rewards, members, np.arange(1, 9))
        assert (scaled(centred, rewards, members) == 0).all()


def test_rounding_in_equal_rewards_is_not_blown_up_to_an_advantage() -> None:
    rewards, members = np.array([0.1 + 0.2, 0.3, 0.3, 0.3]), np.zeros(4, dtype=np.int64)
    assert len(set(rewards)) == 2
    centred = rewards - baseline.group_mean(rewards, members, np.ones(4))
    assert (scale.group_std(centred, rewards, members) == 0).all()
    assert (scale.batch_std(centred, rewards, members) == 0).all()


def test_scales_divide_by_the_unbiased_deviation_of_the_rewards() -> None:
    rewards, members = np.array([1.0, 0.0, 0.0, 1.0, 3.0, 5.0]), np.array([0, 0, 0, 0, 1, 1])
    advantages = np.arange(6.0)
    by_group = scale.group_std(advantages, rewards, members)
    np.testing.assert_allclose(by_group, advantages / [*[math.sqrt(1 / 3)] * 4, *[math.sqrt(2)] * 2], rtol=1e-5)
    np.testing.assert_allclose(
        scale.batch_std(advantages, rewards, members), advantages / np.std(rewards, ddof=1), 1e-5
    )


def test_a_single_reward_has_no_deviation_to_divide_by() -> None:
    for scaled in (scale.group_std, scale.batch_std):
        np.testing.assert_allclose(scaled(np.array([0.5]), np.array([2.0]), np.array([0])), [0.5], rtol=1e-5)


# Credit.


def test_outcome_puts_one_advantage_on_all_tokens_of_all_turns() -> None:
    group = make_group(make_trajectory((2, 0.0), (1, 1.0)), make_trajectory((3, 0.0)))
    first, second = credit.outcome([group], Recipe().normalization)[0]
    assert first.tolist() == [0.5] * 3 and second.tolist() == [-0.5] * 3
    assert first.dtype == np.float64


def test_outcome_reads_shaped_rewards() -> None:
    group = make_group(make_trajectory((1, 1.0)), make_trajectory((1, 1.0)), rewards=[3.0, 1.0])
    assert [float(credits[0]) for credits in credit.outcome([group], Recipe().normalization)[0]] == [1.0, -1.0]


def test_statistics_are_over_trajectories_however_many_turns_they_have() -> None:
    long, short = make_trajectory(*[(3, 0.0)] * 9, (3, 1.0)), make_trajectory((1, 0.0))
    credits = credit.outcome([make_group(long, short)], Recipe().normalization)[0]
    assert credits[0][0] == 0.5 and credits[1][0] == -0.5


def to_go(*groups, **options) -> list[list[float]]:
    result = credit.reward_to_go(list(groups), Recipe().normalization, whiten=False, **options)
    return [credits.tolist() for per_group in result for credits in per_group]


def test_a_reward_reaches_every_turn_before_it() -> None:
    group = make_group(make_trajectory((2, 0.0), (1, 0.5), (2, 1.0)))
    assert to_go(group) == [[1.5, 1.5, 1.5, 1.0, 1.0]]
    assert to_go(group, gamma=0.5) == [[0.1875, 0.375, 0.75, 0.5, 1.0]]


def test_the_shipped_reset_stops_a_reward_at_the_observation_before_its_turn() -> None:
    assert to_go(make_group(make_trajectory((2, 0.0), (1, 0.5), (2, 1.0))), reset_at_gap=True) == [
        [0.0, 0.0, 0.5, 1.0, 1.0]
    ]
    assert to_go(make_group(make_trajectory((2, 0.0), (1, 1.0), context=0)), reset_at_gap=True) == [[1.0, 1.0, 1.0]]


def test_what_shaping_added_lies_on_the_last_token_so_that_rewards_add_up() -> None:
    assert to_go(make_group(make_trajectory((2, 0.5), (2, 0.0)), rewards=[0.25])) == [[0.25, 0.25, -0.25, -0.25]]


def test_the_reward_of_a_turn_without_tokens_is_not_lost() -> None:
    assert to_go(make_group(make_trajectory((0, 0.25), (2, 0.0), (0, 1.0)))) == [[1.25, 1.0]]
    assert to_go(make_group(make_trajectory((0, 1.0)), make_trajectory((1, 0.5)))) == [[], [0.5]]


def test_kl_in_the_reward_is_paid_per_token_and_summed_from_there_on() -> None:
    group = make_group(make_trajectory((2, 1.0)))
    with pytest.raises(ValueError, match="stream 'ref', which 1 of 1 turns lack"):
        to_go(group, kl=0.5)
    asyncio.run(score.reference(ToyScorer(), [group]))  # 0.2 below the sampler's on each token
    np.testing.assert_allclose(to_go(group, kl=0.5), [[0.8, 0.9]])


def test_whitened_credit_has_mean_0_and_variance_1_over_all_tokens_of_the_batch() -> None:
    groups = toy_groups()
    flat = np.concatenate(
        [credits for per_group in credit.reward_to_go(groups, Recipe().normalization) for credits in per_group]
    )
    assert flat.mean() == pytest.approx(0.0, abs=1e-12)
    assert flat.var(ddof=1) == pytest.approx(1.0)


def test_whitening_equal_numbers_or_a_single_one_gives_0() -> None:
    assert (statistics.whiten(np.full(7, 0.1)) == 0).all()
    assert (statistics.whiten(np.array([3.0])) == 0).all()
    masked = statistics.whiten(np.array([0.1, np.nan, 0.1]), np.array([True, False, True]))
    assert (masked == 0).all()


def test_gae_with_lambda_1_is_the_return_less_the_value_and_fills_the_critic_s_target() -> None:
    group = make_group(make_trajectory((2, 0.0), (1, 1.0)))
    for turn, values in zip(group.trajectories[0].turns, [(0.2, 0.4), (0.7,)], strict=True):
        turn.streams["value"] = values
    (credits,) = credit.gae([group], Recipe().normalization, whiten=False)[0]
    np.testing.assert_allclose(credits, [0.8, 0.6, 0.3])
    targets = [turn.streams["returns"] for turn in group.trajectories[0].turns]
    np.testing.assert_allclose(np.concatenate(targets), [1.0, 1.0, 1.0])
    (one_step,) = credit.gae([group], Recipe().normalization, whiten=False, lam=0.0, gamma=0.5)[0]
    np.testing.assert_allclose(one_step, [0.5 * 0.4 - 0.2, 0.5 * 0.7 - 0.4, 1.0 - 0.7])


def test_gae_without_values_says_what_is_missing() -> None:
    with pytest.raises(ValueError, match="stream 'value', which 2 of 2 turns lack"):
        credit.gae([make_group(make_trajectory((1, 0.0), (1, 1.0)))], Recipe().normalization)


def test_values_at_observations_are_never_read() -> None:
    mask = np.array([[True, False, True]])
    rewards = np.array([[0.0, 0.0, 1.0]])
    clean = returns.generalised_advantages(rewards, np.array([[0.5, 0.0, 0.25]]), mask, gamma=0.9, lam=0.8)
    dirty = returns.generalised_advantages(rewards, np.array([[0.5, 99.0, 0.25]]), mask, gamma=0.9, lam=0.8)
    np.testing.assert_array_equal(clean[0][mask], dirty[0][mask])


def test_an_episode_that_a_limit_cut_short_counts_like_any_other() -> None:
    cut = make_trajectory((2, 0.0))
    cut.stop = Stop.TURN_LIMIT
    credits = credit.outcome([make_group(cut, make_trajectory((2, 1.0)))], Recipe().normalization)[0]
    assert credits[0].tolist() == [-0.5, -0.5]


# The moving average of what each seat has earned.
SPIRAL = recipes.load("spiral").normalization


def seat_group(seat: str, *returns: float, rewards: tuple[float, ...] = ()) -> Group:
    """One group of a seat; each member has two turns, the second of which is paid."""
    members = [make_trajectory((1, 0.0), (2, value)) for value in returns]
    for member in members:
        member.agent = seat
    return make_group(*members, rewards=rewards)


def advantages(part: credit.role_average, *groups: Group) -> list[float]:
    """Each trajectory's advantage, which is the same for all of its tokens."""
    arrays = [array for of_group in part(groups, SPIRAL) for array in of_group]
    assert all(array.shape == (3,) and len(set(array)) == 1 for array in arrays)
    return [float(array[0]) for array in arrays]


def test_each_seat_is_compared_with_its_own_average_before_the_return() -> None:
    part = credit.role_average(decay=0.9)
    first, second = seat_group("first", 1.0, 1.0, -1.0), seat_group("second", -1.0, -1.0, 1.0)
    # averages of the first seat: 0, 0.1, 0.19 and then 0.071
    np.testing.assert_allclose(advantages(part, first, second), [1.0, 0.9, -1.19, -1.0, -0.9, 1.19])
    np.testing.assert_allclose(advantages(part, seat_group("second", 0.0), seat_group("third", 2.0)), [0.071, 2.0])


def test_shaped_returns_are_compared_and_averaged() -> None:
    part = credit.role_average(decay=0.5)
    assert advantages(part, seat_group("first", 1.0, 1.0, rewards=(0.4, 0.6))) == pytest.approx([0.4, 0.4])


def test_the_average_removes_what_a_seat_always_wins() -> None:
    part = credit.role_average()
    for _ in range(40):
        last = advantages(part, *(seat_group("first", 1.0) for _ in range(4)))
    assert max(map(abs, last)) < 1e-3


def test_averages_outlive_the_update_and_a_saved_recipe() -> None:
    groups = [seat_group("first", 1.0), seat_group("second", -1.0)]
    recipe, resumed, fresh = (recipes.load("spiral") for _ in range(3))
    first = [recipe.credit(groups, SPIRAL)[k][0][0] for k in range(1)]
    resumed.load_state_dict(recipe.state_dict())
    again, after_resume, from_zero = (one.credit(groups, SPIRAL)[0][0][0] for one in (recipe, resumed, fresh))
    assert first == [1.0] and again == after_resume == pytest.approx(0.95) and from_zero == 1.0
    assert recipe.state_dict() == {"credit": {"averages": pytest.approx({"first": 0.0975, "second": -0.0975})}}


def test_the_decay_is_an_option_of_the_flag() -> None:
    part = recipes.part("credit", "role_average:decay=0.5")
    assert advantages(part, seat_group("agent", 1.0, 1.0)) == [1.0, 0.5]
    with pytest.raises(ValueError, match="decay"):
        recipes.part("credit", "role_average:decay=1.5")
