"""Arrays that do not fit together are refused where they enter an estimator, with the name, the shape and the reason."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rl.methods.estimators import gains, returns, segments, states, statistics, subsets, trees, turn_table
from rl.methods.estimators.shapes import expect_shapes
from rl.methods.recipe import Recipe

ONE, TWO, TABLE = np.zeros(3), np.zeros(4), np.zeros((3, 5))
GROUP, OTHER_GROUP = np.zeros(3, dtype=np.int64), np.zeros(4, dtype=np.int64)


def test_arrays_that_fit_are_accepted_whatever_their_kind() -> None:
    expect_shapes(rewards=(TABLE, "BT"), mask=(torch.zeros(3, 5), "BT"), group=(GROUP, "B"))
    expect_shapes(empty=(np.zeros((0, 2)), "BT"), none=(np.zeros(0), "B"))


@pytest.mark.parametrize(
    "arrays, message",
    [
        ({"rewards": (ONE, "B"), "group": (OTHER_GROUP, "B")}, r"group has shape \(4,\), expected \(B\) with B=3"),
        ({"values": (ONE, "BT")}, r"values has shape \(3,\), expected \(B, T\)"),
        ({"x": (TABLE, "BT"), "key": (TWO, "T")}, r"key has shape \(4,\), expected \(T\) with T=5"),
        ({"below": (TABLE, "GG")}, r"below has shape \(3, 5\), expected \(G, G\) with G=3"),
    ],
)
def test_a_misfit_is_named_with_its_shape_and_the_expected_one(arrays: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        expect_shapes(**arrays)


@pytest.mark.parametrize(
    "call",
    [
        lambda: statistics.group_mean(ONE, OTHER_GROUP),
        lambda: statistics.group_std(TABLE, GROUP),
        lambda: statistics.whiten(TABLE, np.ones(3, dtype=np.bool_)),
        lambda: returns.generalised_advantages(TABLE, TABLE[:, :4], TABLE > 0),
        lambda: returns.reward_to_go(ONE, ONE > 0),
        lambda: gains.standardise(ONE, OTHER_GROUP),
        lambda: states.history_groups(GROUP, OTHER_GROUP, depth=1),
        lambda: subsets.most_varied(ONE, OTHER_GROUP, ratio=0.5),
        lambda: trees.order(ONE > 0, TABLE > 0),
        lambda: turn_table.compare(ONE, OTHER_GROUP, GROUP, Recipe().normalization),
        lambda: segments.row_sum(torch.zeros(3, 5), torch.zeros(4)),
    ],
)
def test_estimators_refuse_arrays_that_do_not_fit(call) -> None:
    with pytest.raises(ValueError, match="has shape"):
        call()
