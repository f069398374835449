"""PA-RL's targets: which replies to a state are imitated, and with what weight."""

from __future__ import annotations

import numpy as np
import pytest

from rl.methods.estimators.critic_targets import improved_policy
from rl.methods.options import PartError
from rl.methods.parts import credit
from rl.methods.recipe import load
from tests.support.batches import make_group, make_trajectory

VALID = np.ones(4, np.bool_)
ONE_STATE = np.zeros(4, np.int64)


def test_weights_are_a_softmax_over_the_best_with_mean_one() -> None:
    values = np.array([0.1, 0.4, 0.2, 0.3])
    weights = improved_policy(values, VALID, ONE_STATE, keep=0.5, temperature=0.1)
    odds = np.exp([1.0, 0.0])  # 0.4 against 0.3, in units of 0.1
    np.testing.assert_allclose(weights, 4 * np.array([0, odds[0], 0, odds[1]]) / odds.sum())
    assert weights.mean() == pytest.approx(1)
    everything = improved_policy(values, VALID, ONE_STATE, keep=1.0, temperature=1e6)
    np.testing.assert_allclose(everything, 1, atol=1e-5)
    best = improved_policy(values, VALID, ONE_STATE, keep=1.0, temperature=1e-3)
    np.testing.assert_allclose(best, [0, 4, 0, 0], atol=1e-12)


def test_replies_that_are_not_valid_or_have_no_rival_are_not_imitated() -> None:
    values = np.array([0.9, 0.2, 0.1, 0.8])
    valid, state = np.array([False, True, True, True]), np.array([0, 0, 0, 1])
    weights = improved_policy(values, valid, state, keep=1.0, temperature=0.1)
    assert weights[0] == weights[3] == 0
    assert weights[1:3].sum() == pytest.approx(3)
    assert not improved_policy(values, np.zeros(4, np.bool_), state, keep=1.0, temperature=0.1).any()


def test_ten_of_thirty_two_are_candidates_and_the_first_of_equal_ones() -> None:
    weights = improved_policy(np.zeros(32), np.ones(32, np.bool_), np.zeros(32, np.int64), keep=0.3125, temperature=0.1)
    assert weights.tolist() == [3.2] * 10 + [0.0] * 22


def test_the_credit_compares_replies_to_the_same_state_of_a_group() -> None:
    group = make_group(make_trajectory((2, 0.0), (1, 0.0)), make_trajectory((1, 0.0), (3, 1.0)))
    numbers = [[0.1, 0.3], [0.2, 0.3]]  # of the turns of both; their states are those of the first and second turn
    for trajectory, row in zip(group.trajectories, numbers, strict=True):
        for turn, number in zip(trajectory.turns, row, strict=True):
            turn.streams["reply_value"] = (number,) * len(turn.completion.ids)
    (parts,) = credit.improved_policy([group], load("pa_rl").normalization, keep=1.0, temperature=0.1)
    low, high = 2 / (1 + np.e), 2 * np.e / (1 + np.e)
    np.testing.assert_allclose(parts[0], [low, low, 1.0])
    np.testing.assert_allclose(parts[1], [high, 1.0, 1.0, 1.0])


@pytest.mark.parametrize("part", [credit.best_replies, credit.improved_policy])
def test_replies_of_other_roles_and_of_turns_without_a_state_are_not_compared(part) -> None:
    """A planner's best reply and an executor's, in one state, are both the best; without states nothing is compared."""
    group = make_group(*(make_trajectory((1, 0.0), (1, 1.0)) for _ in range(2)))
    for member, trajectory in enumerate(group.trajectories):
        for turn, role in zip(trajectory.turns, ("planner", "executor"), strict=True):
            turn.state, turn.role = "same", role
            turn.streams |= dict.fromkeys(("reply_value", "reply_advantage"), (0.1 + 0.2 * member,))
    (parts,) = part([group], load("pa_rl").normalization)
    assert [bool(one[0]) for one in parts] == [False, True] and (parts[1] == parts[1][0]).all()
    group.trajectories[0].turns[1].state = ""
    with pytest.raises(PartError, match="which 1 of 4 turns lack"):
        part([group], load("pa_rl").normalization)
